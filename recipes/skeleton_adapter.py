"""A skeleton of an adapter: a curator inside an engine that is made up here, whole and to run.

    python recipes/skeleton_adapter.py

Copy `CuratedEngine` and put your engine in the place of `Engine`. docs/add_an_engine.md goes through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor

from geoalign import Rollouts, group_advantages
from geoalign.adapters.decision import (
    decide,
    final_advantages,
    group_numbers,
    make_session,
    metrics_to_log,
    named_fields,
    needed_fields,
    refuse,
    rewards_stay,
)
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import EngineSettings, read_section
from geoalign.curators.session import STATE_FILE
from geoalign.types import SecondRewards, response_keys

PROMPTS, SAMPLES, ANSWERS = 32, 8, 4


class Engine:
    """The engine: its policy is a table, a response is one token, and its verifier errs in one row of five.

    A batch has `prompts` [B], `tokens` [B, T], `mask` [B, T] (1: in the loss), `rewards` [B] and `info`, B dicts.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.logits = torch.zeros(PROMPTS, ANSWERS, requires_grad=True)
        self.generator = Generator().manual_seed(0)
        self.logs: list[dict[str, float]] = []

    def train(self, steps: int) -> None:
        for _ in range(steps):
            batch = self.generate()
            batch["advantages"] = self.compute_advantages(batch)
            self.update(batch)

    def generate(self) -> dict[str, Any]:
        prompts = torch.arange(PROMPTS).repeat_interleave(SAMPLES)
        probabilities = self.logits.detach().softmax(dim=1)[prompts]
        tokens = torch.multinomial(probabilities, 1, generator=self.generator)
        right = tokens[:, 0] == prompts % ANSWERS
        verifier_errs = torch.rand(len(prompts), generator=self.generator) < 0.2
        rewards = (right ^ verifier_errs).float()
        said = zip(tokens[:, 0].tolist(), prompts.tolist(), strict=True)
        info = [{"answer": str(token), "gold": str(prompt % ANSWERS)} for token, prompt in said]
        return {"prompts": prompts, "tokens": tokens, "mask": torch.ones_like(tokens), "rewards": rewards, "info": info}

    def compute_advantages(self, batch: dict[str, Any]) -> Tensor:
        grouped = batch["rewards"].view(-1, SAMPLES)
        return (grouped - grouped.mean(dim=1, keepdim=True)).flatten()

    def update(self, batch: dict[str, Any]) -> None:
        log_probabilities = self.logits.log_softmax(dim=1)[batch["prompts"]].gather(1, batch["tokens"])
        gain = (batch["advantages"][:, None] * log_probabilities * batch["mask"]).sum()
        count = batch["mask"].sum() if self.config["loss"] == "token_mean" else len(batch["mask"])
        [gradient] = torch.autograd.grad(gain / count, self.logits)
        self.logits.data += 20 * gradient

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        state = {"logits": self.logits.data, "generator": self.generator.get_state()}
        save_file(state, folder / "engine.safetensors")

    def load(self, folder: Path) -> None:
        state = load_file(folder / "engine.safetensors")
        self.logits.data = state["logits"]
        self.generator.set_state(state["generator"])


class CuratedEngine(Engine):
    """The engine with a curator: its settings are the section `geoalign` of the engine's configuration."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        section = config.get("geoalign")
        self.settings = read_section(
            EngineSettings, section, engine="Skeleton", path="geoalign", place="such as {'curator': 'denoise'}"
        )
        how = "geoalign.rollout_fields.{need}: the name of an entry of info"
        self.session = make_session(self.settings, how=how)
        self.second_verifier = verifier_of_settings(self.settings, self.session, gold=("gold",), path="geoalign")
        needs_states = "hidden" in self.session.curator.requires
        refuse({f"{self.session.name} requires hidden states, which the engine does not return": needs_states})
        self._check_drops(self.session.curator.drops_rows)

    def compute_advantages(self, batch: dict[str, Any]) -> Tensor:
        """Curates the batch, carries the decision out on it, and returns the advantages of what it then holds."""
        rollouts = self._read(batch)
        decision = decide(self.session, rollouts)
        self.logs.append(metrics_to_log(decision.metrics, self.session.curator, self.settings.log_metrics))
        placed = decision.assignment
        self._check_drops(placed.dropped)  # a curator need not have said so
        for name in ("tokens", "mask"):
            batch[name] = batch[name][placed.source]
        batch["mask"] = batch["mask"] * placed.kept[:, None]
        batch["rewards"] = placed.rewards
        if rewards_stay(placed, rollouts):
            return super().compute_advantages(batch) * placed.weights
        return final_advantages(placed, lambda: group_advantages(placed.rewards, rollouts.groups, scale="none"))

    def _read(self, batch: dict[str, Any]) -> Rollouts:
        """The rows as a curator reads them; what costs something is made for a curator that reads it."""
        rewards = batch["rewards"]
        tokens = batch["tokens"].tolist()
        names = batch["prompts"].tolist()
        fields = self.settings.rollout_fields
        keys = {"response_keys": lambda: response_keys(tokens), "prompt_keys": lambda: batch["prompts"]}
        return Rollouts(
            rewards=rewards,
            groups=group_numbers(names),
            lengths=batch["mask"].sum(dim=1),
            ids=[f"{name}_{row}" for row, name in enumerate(names)],
            donor_ok=batch["mask"].bool().any(dim=1),
            **needed_fields(keys, self.session.curator.reads),
            second_rewards=self._second_rewards(batch),
            **named_fields(fields, batch["info"], rewards, setting="geoalign.rollout_fields", source="info"),
        )

    def _second_rewards(self, batch: dict[str, Any]) -> SecondRewards | None:
        """What asks the second verifier about rows of the batch, by their numbers; texts are made for these alone."""
        if self.second_verifier is None:
            return None

        def asked_rows(asked: Sequence[int]) -> list[dict[str, Any]]:
            return [
                {
                    **batch["info"][row],
                    "prompt": f"{batch['prompts'][row]} modulo {ANSWERS}?",
                    "response": str(batch["tokens"][row, 0].item()),
                }
                for row in asked
            ]

        return self.second_verifier.field(asked_rows)

    def _check_drops(self, drops: bool) -> None:
        problem = f"{self.session.name} drops rows under loss=row_mean, which counts them; set it to token_mean"
        refuse({problem: drops and self.config["loss"] != "token_mean"})

    def save(self, folder: Path) -> None:
        self.session.save(folder / STATE_FILE)
        super().save(folder)

    def load(self, folder: Path) -> None:
        super().load(folder)
        otherwise = "set the geoalign.curator that it was saved with, or begin anew"
        self.session.load(folder / STATE_FILE, setting="load", otherwise=otherwise)


def main() -> None:
    """Trains without and with a curator, and prints how often each policy is right in the end."""
    section = {"curator": {"type": "denoise", "geometry": "none"}, "rollout_fields": {"answers": "answer"}}
    for engine in (Engine({"loss": "token_mean"}), CuratedEngine({"loss": "token_mean", "geoalign": section})):
        engine.train(steps=40)
        prompts = torch.arange(PROMPTS)
        right = engine.logits.softmax(dim=1)[prompts, prompts % ANSWERS].mean()
        print(f"{type(engine).__name__}: right in {right:.0%}")
        if engine.logs:
            print({name: round(value, 2) for name, value in engine.logs[-1].items()})


if __name__ == "__main__":
    main()
