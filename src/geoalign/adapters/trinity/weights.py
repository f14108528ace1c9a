"""The newest weights of the policy, as far as Trinity's synchroniser lets an operator have them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from geoalign.errors import InputError, UnsupportedError

# A new version may be published while an older one is read.
_ATTEMPTS = 5


class PublishedWeights:
    """Asks the synchroniser, a Ray actor of the run's namespace, for weights.

    It has them with `sync_method: memory` (it holds them) and `checkpoint` (it knows their folder). With `nccl` they go
    from the trainer to the rollout engines directly: it knows their version only.

    Args:
        synchronizer: its actor; None: looked up by its name when it is first needed.
    """

    def __init__(self, synchronizer: Any = None) -> None:
        self._synchronizer = synchronizer

    async def version(self) -> int:
        """The version that was published last; 0 before the first, and where no synchroniser runs."""
        actor = self._actor()
        return 0 if actor is None else int(await actor.get_latest_model_version.remote())

    async def newer_than(self, version: int) -> tuple[Mapping[str, Tensor], int] | None:
        """Weights newer than a version, and their own version; None where there are none.

        Raises:
            UnsupportedError: there are newer ones, but no way to have them; the message says what to change.
            InputError: the folder that the synchroniser names is not there.
        """
        for _ in range(_ATTEMPTS):
            newest = await self.version()
            if newest <= version:
                return None
            try:
                weights = await self._read()
            except Exception:
                # The synchroniser removes a version's folder as soon as there is a newer one; what a reader makes of
                # that depends on where it was. Without a newer one the error is another.
                if await self.version() == newest:
                    raise
                continue
            if weights is None:
                raise UnsupportedError(
                    f"weights of version {newest} are published by synchronizer.sync_method=nccl, which passes them to "
                    "the rollout engines only; set it to memory or checkpoint, give hidden states in Experience.info, "
                    "or set reload: never to score with the weights of model_path throughout"
                )
            if await self.version() == newest:
                return weights, newest
        raise UnsupportedError(f"weights were published faster than they could be read ({_ATTEMPTS} attempts)")

    async def _read(self) -> Mapping[str, Tensor] | None:
        actor = self._actor()
        if await actor.get_state_dict_meta.remote() is not None:
            weights = {}
            stream = actor.get_model_state_dict_iterator.options(num_returns="streaming").remote()
            async for reference in stream:
                name, tensor = await reference
                weights[name] = tensor
            return weights
        path = await actor.get_latest_model_path.remote()
        return None if path is None else await asyncio.to_thread(_load, path)

    def _actor(self) -> Any:
        if self._synchronizer is None:
            import ray

            if not ray.is_initialized():
                return None
            try:
                self._synchronizer = ray.get_actor("synchronizer")
            except ValueError:  # none of that name: a pipeline without an explorer
                return None
        return self._synchronizer


def _load(path: str) -> Mapping[str, Tensor]:
    if not Path(path).is_dir():
        raise InputError(
            f"weights of synchronizer.sync_method=checkpoint: expected the folder {path}, got none on this machine; "
            "put checkpoint_root_dir where the process of the operator sees it, or set sync_method to memory"
        )
    from trinity.common.models.utils import load_state_dict

    weights: Mapping[str, Tensor] = load_state_dict(path)
    return weights
