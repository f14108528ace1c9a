import torch
from transformers import Qwen3Config, Qwen3ForCausalLM


def tiny(seed=0, **changes):
    torch.manual_seed(seed)
    shape = {
        "vocab_size": 400, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8,
        "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": False,
    }  # fmt: skip
    return Qwen3ForCausalLM(Qwen3Config(**{**shape, **changes})).eval()
