"""A network for each process: a namespace of its own, and a cable of a given speed to one switch.

Everything is made inside a namespace that the starting process enters first, so that it vanishes with the processes,
however they end, and nothing of the machine's own network is touched. Linux; needs the right to make namespaces.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from geoalign.errors import UnsupportedError

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of sched.h
_INSIDE = "eth0"
_BRIDGE = "switch"
# What a cable lets through at once: more than the 64 kB that the kernel hands down in one piece.
_BURST = "256k"
_WAITING = "100ms"


def leave_network() -> None:
    """Puts the calling thread, and what it starts from now on, into an empty network namespace.

    Raises:
        UnsupportedError: the system does not allow it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) != 0:
        raise UnsupportedError(
            f"a network namespace for each process: {os.strerror(ctypes.get_errno())}; run it as root, or behind "
            "`unshare --map-root-user --net`"
        )


def address(number: int) -> str:
    """The address of a process in the simulated network."""
    return f"10.77.{number // 250}.{number % 250 + 1}"


class Switch:
    """One switch in a namespace of its own, which this process enters; cables lead from it to the processes."""

    def __init__(self, megabits: int) -> None:
        self.megabits = megabits
        self._ports: list[str] = []
        self._made = 0
        leave_network()
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("link", "set", _BRIDGE, "up")

    def connect(self, process: int) -> None:
        """Leads a cable to the namespace of a process, which still has to `plug_in`."""
        port = f"port{self._made}"
        self._made += 1
        _ip("link", "add", port, "type", "veth", "peer", "name", _INSIDE, "netns", str(process))
        self._ports.append(port)
        _limit(port, self.megabits)
        _ip("link", "set", port, "master", _BRIDGE, "up")

    def disconnect_all(self) -> None:
        """Takes every cable away, once the processes have ended. The kernel does it too, some time after that."""
        for port in self._ports:
            try:
                _ip("link", "delete", port)
            except UnsupportedError:
                if port in _devices():
                    raise
        self._ports.clear()


def plug_in(number: int, processes: int, megabits: int) -> None:
    """Gives this process its address and its cable's speed; to be called in its own namespace, once connected.

    The others' hardware addresses are entered, not asked for: all namespaces together may only learn about a thousand.
    """
    _ip("link", "set", "lo", "up")
    _ip("link", "set", _INSIDE, "address", _hardware_address(number))
    _ip("address", "add", f"{address(number)}/16", "dev", _INSIDE)
    _limit(_INSIDE, megabits)
    _ip("link", "set", _INSIDE, "up")
    known = (
        f"neighbour replace {address(other)} lladdr {_hardware_address(other)} dev {_INSIDE} nud permanent\n"
        for other in range(processes)
        if other != number
    )
    _run("ip", "-batch", "-", given="".join(known))


def interface(own_network: bool) -> str:
    """The interface that gloo is to use."""
    return _INSIDE if own_network else "lo"


def traffic(own_network: bool) -> tuple[float, float]:
    """Bytes received and sent through this process's cable, frames and all; NaN on the shared loopback."""
    if not own_network:
        return float("nan"), float("nan")
    fields = _devices()[_INSIDE]
    return float(fields[0]), float(fields[8])


def _hardware_address(number: int) -> str:
    return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"


def _devices() -> dict[str, list[str]]:
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return {name.strip(): fields.split() for name, _, fields in (line.partition(":") for line in lines)}


def _limit(device: str, megabits: int) -> None:
    limit = ("rate", f"{megabits}mbit", "burst", _BURST, "latency", _WAITING)
    _run("tc", "qdisc", "add", "dev", device, "root", "tbf", *limit)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str, given: str = "") -> None:
    try:
        subprocess.run(words, input=given, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise UnsupportedError(f"a network for each process: expected the command {words[0]!r}, got none") from error
    except subprocess.CalledProcessError as error:
        raise UnsupportedError(f"a network for each process: {' '.join(words)}: {error.stderr.strip()}") from error
