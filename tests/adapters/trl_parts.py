"""The tiny training that the adapter's tests run: tokenizer, model, data, reward, arguments, curators."""

from typing import Any, ClassVar

import torch
from curations import curation
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig

from geoalign.adapters.trl import CuratedStep, GeoAlignGRPOTrainer, LabelledRollouts
from geoalign.curators.baselines.reshaped_advantages import IdentityConfig
from geoalign.curators.curator import Curator
from geoalign.types import Curation, Rollouts

TEMPLATE = (
    "{% for m in messages %}{% if m['role']=='user' %}<u>{{ m['content'] }}{% else %}<a>{{ m['content'] }}</s>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)
# A batch in which GeoAlign and denoise find something.
BATCH = {"per_device_train_batch_size": 32, "num_generations": 8, "max_completion_length": 10}
SMALL = {"min_scores": 4, "alpha": 0.5, "projector": {"hidden_dim": 16, "output_dim": 8, "steps": 5}}
# A level at which any agreement opens the gate: a few steps of a tiny model have no signal worth the name.
OPEN = {"level": 0.01}
# More turns end early.
SHORT = {"generation_kwargs": {"sequence_bias": [[[2], 3.0]]}}
# The reward of the trainings is the share of digits: here words are right and digits wrong.
PROMPTS = [f"{n}+{n}=" for n in range(6) for _ in range(4)]
RESPONSES = ["23", "4567", "two", "three"] * 6
LABELLED = LabelledRollouts(PROMPTS, RESPONSES, [0.0, 0.0, 1.0, 1.0] * 6, groups=PROMPTS)


def tokenizer(template: str = TEMPLATE):
    names = ["<pad>", "<s>", "</s>", "<u>", "<a>", "<unk>", *"0123456789+-*/=()., abcdefghijklmnopqrstuvwxyz?"]
    core = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    core.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, chat_template=template, **special)


def model(seed: int = 0, dropout: float = 0.0):
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=56, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=128, attention_dropout=dropout,
        bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def data(rows: int = 32, conversational: bool = False):
    found = []
    for number in range(rows):
        text = f"{number}+{number + 1}="
        prompt = [{"role": "user", "content": text}] if conversational else text
        found.append({"prompt": prompt, "gold": str(number), "score_a": float(number)})
    return Dataset.from_list(found)


def digits(completions, **columns):
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [sum(ch.isdigit() for ch in text) / max(len(text), 1) for text in texts]


def has_digit(completions, **columns):
    return [float(value > 0) for value in digits(completions)]


def length(completions, **columns):
    return [float(len(c)) for c in completions]


def gaps(completions, **columns):
    return [None if "1" in text else value for text, value in zip(completions, digits(completions), strict=True)]


def arguments(folder, **changes):
    values: dict[str, Any] = {
        "output_dir": str(folder), "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 6, "max_steps": 2,
        "logging_steps": 1, "report_to": "none", "save_strategy": "no", "learning_rate": 1e-2, "disable_tqdm": True,
        "beta": 0.0, "seed": 3,
    }  # fmt: skip
    return GRPOConfig(**{**values, **changes})


def trainer(
    folder, curator=None, cls=GeoAlignGRPOTrainer, reward=digits, policy=None, dataset=None, extra=None,
    processing=None, **changes,
):  # fmt: skip
    """A trainer of the tiny model; `extra` are keywords of the trainer, `changes` those of its arguments."""
    keywords = dict(extra or {})
    if cls is not None and issubclass(cls, GeoAlignGRPOTrainer):
        keywords["curator"] = curator
    return cls(
        model() if policy is None else policy,
        reward,
        args=arguments(folder, **changes),
        train_dataset=data() if dataset is None else dataset,
        processing_class=tokenizer() if processing is None else processing,
        **keywords,
    )


def weights_of(trained):
    return {name: value.detach().clone() for name, value in trained.model.named_parameters()}


def same_weights(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


class Scripted(Curator):
    """A curator whose decision is a function of the rollouts; remembers what it saw."""

    config_class = IdentityConfig

    def __init__(self, decide, requires=()):
        super().__init__()
        self.decide = decide
        self.requires = tuple(requires)
        self.seen: list[Rollouts] = []

    def curate(self, rollouts, *, generator=None, details=False):
        self.seen.append(rollouts)
        return self.decide(rollouts)


def best_of_group(rollouts: Rollouts) -> Curation:
    """Every row of a group of 4 becomes its row of highest reward."""
    place_in_group = rollouts.rewards.nan_to_num(-9).view(-1, 4).argmax(1)
    best = place_in_group + torch.arange(0, len(rollouts), 4)
    return curation(rollouts, source=best.repeat_interleave(4))


def second_half_from_first(rollouts: Rollouts) -> Curation:
    """The second half of each group of 4 is replaced by the first half: donors cross a process border between them."""
    source = torch.arange(len(rollouts))
    source[2::4] = source[0::4]
    source[3::4] = source[1::4]
    return curation(rollouts, source=source, anomalous=source != torch.arange(len(rollouts)))


def drop_last_of_group(rollouts: Rollouts) -> Curation:
    rows = torch.arange(len(rollouts))
    return curation(rollouts, source=rows[rows % 4 != 3])


class Drawing(Curator):
    """Draws from its generator at every call, replaces by the draw, and keeps state."""

    config_class = IdentityConfig
    requires: ClassVar[tuple[str, ...]] = ("hidden",)

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.memory = torch.zeros(3)

    def curate(self, rollouts, *, generator=None, details=False):
        self.calls += 1
        offset = torch.randint(0, 4, (1,), generator=generator)
        self.memory = self.memory + torch.rand(3, generator=generator)
        rows = torch.arange(len(rollouts))
        return curation(rollouts, source=rows // 4 * 4 + (rows + offset + self.calls) % 4)

    def state_dict(self):
        return {"calls": self.calls, "memory": self.memory}

    def load_state_dict(self, state):
        self.calls = state["calls"]
        self.memory = state["memory"]


class Recording(GeoAlignGRPOTrainer):
    """Remembers what entered the loss: (prompt, response, advantage) of every row of every micro-batch."""

    def __init__(self, *args, **kwargs):
        self.entered: list[tuple[str, str, float]] = []
        self.steps: list[CuratedStep] = []
        super().__init__(*args, curation_observer=self.steps.append, **kwargs)

    def compute_loss(self, model, inputs, *args, **kwargs):
        self.entered += entering(self, inputs)
        return super().compute_loss(model, inputs, *args, **kwargs)


def entering(trained, batch):
    texts = (
        [trained._tokenizer.decode(ids[mask.bool()], skip_special_tokens=True)
         for ids, mask in zip(batch[f"{part}_ids"], batch[f"{part}_mask"], strict=True)]
        for part in ("prompt", "completion")
    )  # fmt: skip
    return list(zip(*texts, batch["advantages"].tolist(), strict=True))


def curated_batch(prepared):
    """The dict that would enter the buffer for the trainer's first generation batch."""
    prepared.model.train()
    prepared.current_gradient_accumulation_steps = prepared.args.gradient_accumulation_steps
    return prepared._generate_and_score_completions(next(iter(prepared.get_train_dataloader())))


def by_hand(rewards: torch.Tensor, size: int = 4) -> torch.Tensor:
    """GRPO's advantages of contiguous groups with TRL's constant, written out: (r - mean) / (std + 1e-4)."""
    grouped = rewards.view(-1, size)
    mean = grouped.mean(1, keepdim=True)
    std = grouped.std(1, keepdim=True)
    return ((grouped - mean) / (std + 1e-4)).view(-1)
