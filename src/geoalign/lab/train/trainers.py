"""What the trainers of the stages before RL have in common beside TRL's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_Base: Any = object
if TYPE_CHECKING:
    from transformers import Trainer as _Base


class InRunFolder(_Base):
    """Put before a trainer of TRL: no model card at every checkpoint; its token count survives a resumption."""

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        # TRL counts `num_tokens` from zero again; the last logged value is that of the checkpoint.
        counts = [entry["num_tokens"] for entry in self.state.log_history if "num_tokens" in entry]
        if checkpoint is not None and counts:
            self._total_train_tokens = int(counts[-1])

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: a run folder describes itself."""
