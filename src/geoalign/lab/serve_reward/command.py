"""Starting the reward server: its limits are checked before the model is loaded."""

from __future__ import annotations

from dataclasses import replace

import torch

from geoalign.errors import MissingExtraError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.http_client.token import token_from
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.terminal import Console

try:
    from geoalign.lab.serve_reward.access import check_host
    from geoalign.lab.serve_reward.app import reward_app
    from geoalign.lab.serve_reward.server import bound_sockets, serve
except ImportError as _absent:
    raise MissingExtraError("serve-reward needs FastAPI and uvicorn: pip install 'geoalign[trl,serve]'") from _absent


def serve_reward(
    model: RewardModelConfig,
    console: Console,
    *,
    host: str = "127.0.0.1",
    port: int = 8100,
    token_env: str | None = None,
    allow_without_token: bool = False,
    max_batch: int = 256,
    max_bytes: int = 32 * 2**20,
) -> None:
    """Serves the model of `model.path` until the process is asked to stop.

    Raises:
        ConfigError: there is no such model, no token in the variable named, the host is open to other machines
            without a token, or nothing can listen at the port.
    """
    token = None if token_env is None else token_from(token_env, key="token-env")
    check_host(host, token=token, allow_without_token=allow_without_token)
    path = model.path
    assert path is not None
    if model.device is None and torch.accelerator.is_available():
        model = replace(model, device=str(torch.accelerator.current_accelerator()))
    # The port first: loading may take minutes.
    with bound_sockets(host, port) as sockets, RewardModelScorer.load(path, model) as scorer:
        app = reward_app(scorer, token=token, max_batch=max_batch, max_bytes=max_bytes)
        console.print(
            f"Reward model {path} at http://{host}:{port} "
            f"({'with' if token else 'without'} a token, {max_batch} responses a request at most)",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        serve(app, sockets)
