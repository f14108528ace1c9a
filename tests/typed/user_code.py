"""What a user writes, as a type checker sees it: `test_user_code.py` checks it with `mypy --strict`."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, assert_type

import torch
from pydantic import Field
from torch import Generator, Tensor

import geoalign.adapters.trl
import geoalign.audit.settings
from geoalign import (
    CURATORS,
    Baseline,
    Chain,
    Curation,
    CurationSession,
    Curator,
    Denoise,
    DenoiseConfig,
    GeoAlign,
    Monitor,
    Rollouts,
    as_curator,
    audit,
    boxed_answers,
    check_curator,
    curator_checks,
    group_advantages,
    groups_of,
    identity,
    reweighted,
    subset,
    tied_rewards,
)
from geoalign.adapters.decision import decide, final_advantages, make_session, metrics_to_log, refuse
from geoalign.adapters.settings import EngineSettings, read_section
from geoalign.adapters.trl import CuratedStep, GeoAlignGRPOTrainer, unscored_on_failure
from geoalign.audit.results import AuditReport
from geoalign.audit.settings import AuditConfig
from geoalign.dumps.labels import read_labelled_rollouts
from geoalign.errors import ConfigError, ContractError, InputError
from geoalign.settings import setting, settings


# A curator.
@settings
class ClippedConfig:
    """The settings of `Clipped`."""

    type: ClassVar[str] = "clipped"

    limit: Annotated[float, Field(gt=0)] = setting(default=1.0, help="Largest |reward|.")


class Clipped(Curator[ClippedConfig]):
    """Clips every reward to [-limit, limit]."""

    acts_on = ("rewards",)
    scores_rows = False

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        limit = assert_type(self.config.limit, float)
        rewards = rollouts.rewards.clamp(-limit, limit)
        return replace(identity(rollouts), rewards=rewards, metrics={"clipped": float((rewards == limit).sum())})


class Trimmed(Baseline[ClippedConfig]):
    """Gives large rewards weight 0, or leaves out their rows."""

    def declare(self) -> None:
        self.acts_on = ("weights",) if self.config.limit > 1 else ("rows",)
        self.drops_rows = self.config.limit <= 1

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        tied = assert_type(tied_rewards(rollouts.rewards, rollouts.groups), Tensor)
        small = tied.abs() <= self.config.limit
        if self.drops_rows:
            kept = [group.rows[small[group.rows]] for group in groups_of(rollouts)]
            return subset(rollouts, kept, {"groups": float(len(kept))})
        return reweighted(rollouts, small.float(), {})


def test_the_contract() -> None:
    check_curator(Clipped)
    check_curator(lambda: Trimmed(limit=0.5), rewards="binary")
    for check in curator_checks({"type": "denoise", "window": 3}):
        try:
            check()
        except ContractError as error:
            print(check.__name__, error)


# A loop of one's own.
def train(batches: Iterable[tuple[Tensor, Tensor, list[str]]], folder: Path) -> dict[str, float]:
    chain = Chain([Clipped(limit=0.5), Denoise(geometry="none"), "pods"])
    session = CurationSession(Monitor(chain), seed=0)
    metrics: dict[str, float] = {}
    for rewards, groups, texts in batches:
        answers = boxed_answers(texts)
        curation = session.curate(Rollouts(rewards=rewards, groups=groups, answers=answers))
        advantages = assert_type(curation.advantages, Tensor | None)
        if advantages is None:
            advantages = group_advantages(curation.rewards, groups[curation.source])
        metrics = {**curation.metrics, "spread": float((advantages * curation.weights).std())}
    session.save(folder / "curator")
    return metrics


def curators() -> list[Curator[Any]]:
    assert_type(GeoAlign().acts_on, tuple[str, ...] | None)
    assert_type(Denoise(DenoiseConfig(window=3)).config.window, int)
    return [as_curator("denoise"), CURATORS["geoalign"](), GeoAlign(min_scores=8)]


# A training with TRL, with labelled rollouts and a second verifier.
def second_verifier(prompts: list[Any], completions: list[str], **columns: Any) -> list[float | None]:
    return [None if "?" in completion else 1.0 for completion in completions]


def train_with_trl(dataset: Any, reward: Callable[..., list[float]]) -> None:
    seen: list[int] = []

    def observe(step: CuratedStep) -> None:
        seen.append(len(assert_type(step.curation.source, Tensor)))

    trainer = GeoAlignGRPOTrainer(
        model="Qwen/Qwen3-0.6B",
        reward_funcs=unscored_on_failure(reward, timeout=10.0),
        train_dataset=dataset,
        curator={"type": "appeals", "curator": {"type": "denoise", "window": 3}},
        monitor=True,
        hidden_position="mean",
        hidden_layer=[0.5, 1.0],
        rollout_fields={"answers": "said", "gold_answers": "answer"},
        second_verifier=second_verifier,
        second_verifier_seconds=30.0,
        curation_observer=observe,
        log_metrics="all",
    )
    trainer.train()


# An audit.
def wrong_rewards(folder: Path) -> float:
    report = assert_type(audit("rollouts.jsonl", curator="denoise", output=folder, overwrite=True), AuditReport)
    assert_type(geoalign.audit(["a.jsonl", folder], fields={"reward": "score"}), AuditReport)
    config: AuditConfig = geoalign.audit.settings.load_audit_config()
    labelled = read_labelled_rollouts(folder / "flagged.csv")
    session = CurationSession("labelled_probe", seed=config.seed, labelled=labelled)
    return float(report.rows["anomalous"].mean()) / max(session.calls, len(report.summary["inputs"]))


# An adapter.
def advantages_of(section: dict[str, object], rollouts: Rollouts) -> tuple[Tensor, dict[str, float]]:
    own = read_section(EngineSettings, section, engine="mine", path="geoalign")
    session = make_session(own, how="{need}")
    refuse({f"{session.name} drops rows": session.curator.drops_rows})
    decision = decide(session, rollouts)
    placed = decision.assignment
    advantages = final_advantages(placed, lambda: group_advantages(placed.rewards, rollouts.groups))
    return advantages, metrics_to_log(decision.metrics, session.curator, own.log_metrics)


def first_error() -> str:
    try:
        Rollouts(rewards=torch.zeros(2), groups=torch.zeros(3, dtype=torch.long))
    except (InputError, ConfigError) as error:
        return str(error)
    return ""


# Mistakes that a type checker finds: where it did not, `ignore` would be the error.
def mistakes(rollouts: Rollouts) -> None:
    geoalign.Geoalign  # type: ignore[attr-defined] # noqa: B018
    geoalign.adapters.trl.GeoAlignTrainer  # type: ignore[attr-defined] # noqa: B018
    rollouts.reward  # type: ignore[attr-defined] # noqa: B018
    Rollouts(rewards=[0.0, 1.0], groups=rollouts.groups)  # type: ignore[arg-type]
    audit(dump="rollouts.jsonl")  # type: ignore[call-arg]
    DenoiseConfig(window="3")  # type: ignore[arg-type]
    DenoiseConfig(windw=3)  # type: ignore[call-arg]
    Denoise().curate([1.0])  # type: ignore[arg-type]
    check_curator(Clipped, rewards="verdicts")  # type: ignore[arg-type]
    GeoAlignGRPOTrainer(hidden_position="nowhere")  # type: ignore[arg-type]
