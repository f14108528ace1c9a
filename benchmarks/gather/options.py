"""What the gather benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

from geoalign.errors import ConfigError
from geoalign.lab.bench.curation import Shape

# Private addresses 10.77.0.1 to 10.77.3.254 are handed out.
MOST_PROCESSES = 1000


@dataclass(frozen=True)
class Options:
    """Processes that stand for nodes, and the batches whose states they share.

    Attributes:
        shapes: groups x rollouts of each x hidden size; the states are float32, as the adapters make them.
        processes: numbers of processes, one after another; each divides the rollouts of every shape.
        repeats: measured calls of each part.
        megabits: speed of every process's own cable, in both directions, with a network namespace for each process;
            None: all of them on the machine's loopback.
        gigabytes: what the states of all processes together may take; a part that needs more is left out and said.

    Raises:
        ConfigError: a number is out of range, or rollouts cannot be shared evenly.
    """

    shapes: tuple[Shape, ...]
    processes: tuple[int, ...]
    repeats: int = 3
    megabits: int | None = None
    gigabytes: float = 8.0

    def __post_init__(self) -> None:
        for count in self.processes:
            if not 2 <= count <= MOST_PROCESSES:
                raise ConfigError(f"processes: expected 2 to {MOST_PROCESSES}, got {count}")
            for shape in self.shapes:
                rows = shape.groups * shape.size
                if rows % count:
                    raise ConfigError(f"processes: expected a divisor of the {rows} rollouts of {shape}, got {count}")
        if self.repeats < 1:
            raise ConfigError(f"repeats: expected at least 1, got {self.repeats}")
        if self.megabits is not None and self.megabits < 1:
            raise ConfigError(f"megabits: expected at least 1, got {self.megabits}")
        if not self.gigabytes > 0:
            raise ConfigError(f"gigabytes: expected more than 0, got {self.gigabytes}")


def state_bytes(shape: Shape) -> int:
    """The hidden states of a batch in float32."""
    return 4 * shape.groups * shape.size * shape.d


def needed_bytes(part: str, shape: Shape, processes: int) -> int:
    """What the states take in all processes together during a part: the shares, what is received, and copies of it.

    gloo has no gather into one tensor: accelerate receives a list and concatenates it, torch keeps a flat copy of
    inputs and outputs while gloo works, and the allocator keeps pages. Seven times the states were seen in a process.
    """
    copies = {"to all": 1 + 7 * processes, "to one": 4, "back": 1}
    return copies[part] * state_bytes(shape)
