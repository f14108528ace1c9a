"""A random tiny Qwen2 with a tokenizer of single characters, and a data set of prompts, in a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

# verl asks a Qwen tokenizer for its turn tokens and its newline.
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
END = 62


def make_model(folder: Path, *, tied: bool = False) -> None:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=66, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, tie_word_embeddings=tied, eos_token_id=END,
        pad_token_id=END, bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"]
    specials = {"<|im_end|>": END, "<|im_start|>": 63, "\n": 64, "<unk>": 65}
    vocabulary = {letter: place for place, letter in enumerate(letters)} | specials
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.add_special_tokens(["<|im_end|>", "<|im_start|>", "\n"])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<unk>",
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def make_prompts(path: Path, sizes: list[int] | None = None, count: int = 64) -> None:
    rows = []
    for index in range(count):
        row = {
            "data_source": "letters",
            "prompt": [{"role": "user", "content": f"{chr(97 + index % 26)}{index}"}],
            "reward_model": {"style": "rule", "ground_truth": "a"},
            "extra_info": {"index": index},
        }
        if sizes:
            # verl's own column for a number of responses of its own per prompt.
            row["__rollout_n__"] = sizes[index % len(sizes)]
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows), path)


def main() -> None:
    folder = Path(sys.argv[1])
    sizes = json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
    make_model(folder / "model")
    make_model(folder / "model_tied", tied=True)
    make_prompts(folder / "prompts.parquet", sizes)


if __name__ == "__main__":
    main()
