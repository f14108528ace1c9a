"""The mean last-layer state of a reply: what the head of a reward model reads where the head alone was fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# In the config of a reward model whose head reads the mean over the reply's tokens, not the last token's state.
_MARK = "scores_mean_reply_state"


def mark_mean(model: Any) -> None:
    """Notes in the model's config, which is saved with it, that its head reads mean states."""
    setattr(model.config, _MARK, True)


def reads_mean(model: Any) -> bool:
    """Whether a reward model's head reads mean states; of any other model it reads what the model's class says."""
    return bool(getattr(model.config, _MARK, False))


def reply_start(tokenizer: Any, dialogue: Sequence[Mapping[str, Any]]) -> int:
    """The number of tokens before the last message's own, which the chat template writes in front of a reply."""
    prompt = list(dialogue[:-1])
    encoded = tokenizer.apply_chat_template(prompt, tokenize=True, return_dict=True, add_generation_prompt=True)
    return len(encoded["input_ids"])


@torch.no_grad()
def mean_reply_states(model: Any, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Float[Tensor, "rows width"]:
    """The mean of each row's states from its start to its end, padding left out, as the head below them gets it.

    Args:
        rows: tokens of whole dialogues.
        starts: tokens before each reply; of an empty reply the last token counts.
    """
    width = max(map(len, rows))
    # Padding on the right, which no earlier token sees.
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=model.device)
    places = torch.arange(width, device=model.device)
    ends = torch.tensor([len(row) for row in rows], device=model.device)
    begins = torch.minimum(torch.tensor(starts, device=model.device), ends - 1)
    attended = places < ends[:, None]
    states = model.base_model(input_ids=ids, attention_mask=attended.long(), use_cache=False).last_hidden_state
    counted = (attended & (places >= begins[:, None])).to(states.dtype)
    means: Tensor = torch.einsum("rt,rtw->rw", counted, states) / counted.sum(dim=1, keepdim=True)
    return means
