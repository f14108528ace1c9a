"""A tiny reward model with code of its own, saved as ArmoRM is: several objectives, and a gate that weighs them."""

import json
from pathlib import Path
from typing import Any

from tiny_models import random_model
from transformers import LlamaConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

CODE = """
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.models.llama.modeling_llama import LLAMA_INPUTS_DOCSTRING
from transformers.utils import ModelOutput, add_start_docstrings_to_model_forward


@dataclass
class GatedOutput(ModelOutput):
    rewards: Optional[torch.FloatTensor] = None
    gate: Optional[torch.FloatTensor] = None
    score: Optional[torch.FloatTensor] = None
    logits: Optional[torch.FloatTensor] = None


class GatedRewardModel(LlamaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.objectives = nn.Linear(config.hidden_size, config.num_objectives, bias=False)
        self.post_init()
        self.gate = nn.Linear(config.hidden_size, config.num_objectives)

    @add_start_docstrings_to_model_forward(LLAMA_INPUTS_DOCSTRING)
    def forward(self, input_ids=None, attention_mask=None, **_):
        outputs = self.model(input_ids, attention_mask=attention_mask)
        states = outputs[0]
        rows = torch.arange(len(input_ids), device=states.device)
        # The last token before the first padding token; without one, the last of all.
        ends = (torch.eq(input_ids, self.config.pad_token_id).int().argmax(-1) - 1) % input_ids.shape[-1]
        rewards = self.objectives(states[rows, ends])
        gate = torch.softmax(self.gate(states[:, 0]), dim=-1)
        score = (rewards * gate).sum(-1)
        # Not what is wanted: a reader of logits would take another number.
        return GatedOutput(rewards=rewards, gate=gate, score=score, logits=rewards)
"""


def save_gated_model(folder: Path, tokenizer: Any) -> Path:
    """A random model of three objectives with its code and tokenizer in `folder`."""
    folder.mkdir()
    (folder / "modeling_gated.py").write_text(CODE)
    kind = get_class_from_dynamic_module("modeling_gated.GatedRewardModel", str(folder))
    sizes = {"max_position_embeddings": 128, "initializer_range": 0.5, "num_objectives": 3}
    model = random_model(kind, LlamaConfig, tokenizer, **sizes)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"auto_map": {"AutoModelForSequenceClassification": "modeling_gated.GatedRewardModel"}}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder
