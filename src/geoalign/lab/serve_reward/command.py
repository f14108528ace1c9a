"""Starting the reward server: its limits are checked before the model is loaded."""

from __future__ import annotations

from dataclasses import replace

import torch

from geoalign.errors import MissingExtraError
from geoalign.lab.config.requests import ServeRequest
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


def serve_reward(model: RewardModelConfig, request: ServeRequest, console: Console) -> None:
    """Serves the model of `model.path` until the process is told to stop.

    Raises:
        ConfigError: there is no such model, no token in the variable named, the host is open to other machines
            without a token, or nothing can listen at the port.
    """
    host, port, path = request.host, request.port, model.path
    token = None if request.token_env is None else token_from(request.token_env, key="token-env")
    check_host(host, token=token, allow_without_token=request.allow_without_token)
    assert path is not None
    if model.device is None and torch.accelerator.is_available():
        model = replace(model, device=str(torch.accelerator.current_accelerator()))
    # The port first: loading may take minutes.
    with bound_sockets(host, port) as sockets, RewardModelScorer.load(path, model) as scorer:
        app = reward_app(scorer, token=token, max_batch=request.max_batch, max_bytes=request.max_bytes)
        console.print(
            f"Reward model {path} at http://{host}:{port} "
            f"({'with' if token else 'without'} a token, {request.max_batch} responses a request at most)",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        serve(app, sockets)
