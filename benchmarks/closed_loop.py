"""A small policy trained on curated rewards, in worlds whose verifier errs in known ways.

A rule for believing verdicts is judged by what a policy becomes under it: a replay of stored batches does not show that
a policy trained on a rule's rewards changes the batches that the rule sees next.

    python -m benchmarks.closed_loop                      # every world, five seeds, GRPO beside `denoise`
    python -m benchmarks.closed_loop --worlds flips_40 --seeds 2 --curators grpo,majority_vote,denoise

The policy is linear: response a to prompt p has log-odds theta' f(p, a), with a random vector f(p, a) for each of eight
answers and for "no answer". The right answer of a prompt is the one with the largest u' f(p, a) plus noise that theta
cannot express, and at first theta is halfway to u, so that many of the most frequent answers are wrong. Each batch has
new prompts. Adam follows the policy gradient of the curated advantages for 60 batches.
Printed is the mean true reward of the policy at the end, over new prompts, and its difference to that under the first
curator, with a 95% interval over the paired seeds.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from geoalign import CURATORS, Denoise, Rollouts, group_advantages
from geoalign.statistics import paired_difference

ANSWERS = 8
FEATURES = 64
BATCHES = 60
LEARNING_RATE = 0.02
# Width of the hidden states, and the noise beside the features in them.
STATES = 32


@dataclass(frozen=True)
class World:
    """How a batch is drawn and how its verifier errs.

    Attributes:
        groups, size: prompts of a batch, and rollouts of each.
        wrong: share of the verdicts that are flipped.
        repeated: share of these flips that belong to the answer, the same whenever it is given to the prompt.
        unanswered: share of responses without an answer at the start; they are never right.
        unanswered_rewarded: share of them that the verifier rewards.
        dynamic_sampling: prompts whose responses all get one reward are left out, as in DAPO, and others drawn instead.
        continuous: rewards are utilities, not verdicts; `wrong` of them go to the other end of their group.
        state_noise: deviation of what the states hold beside the features.
    """

    groups: int = 16
    size: int = 16
    wrong: float = 0.0
    repeated: float = 0.0
    unanswered: float = 0.0
    unanswered_rewarded: float = 0.0
    dynamic_sampling: bool = False
    continuous: bool = False
    state_noise: float = 1.0


WORLDS = {
    "no_noise": World(),
    "flips_10": World(wrong=0.1),
    "flips_20": World(wrong=0.2),
    "flips_40": World(wrong=0.4),
    "flips_40_small_batches": World(groups=5, size=8, wrong=0.4, unanswered=0.3, unanswered_rewarded=0.4),
    "flips_45": World(wrong=0.45),
    "coin": World(wrong=0.5),
    "no_noise_dynamic": World(dynamic_sampling=True),
    "flips_20_dynamic": World(wrong=0.2, dynamic_sampling=True),
    "flips_40_dynamic": World(wrong=0.4, dynamic_sampling=True),
    "repeated_40_dynamic": World(wrong=0.4, repeated=1.0, dynamic_sampling=True),
    "half_repeated_40": World(wrong=0.4, repeated=0.5),
    "repeated_20": World(wrong=0.2, repeated=1.0),
    "repeated_40": World(wrong=0.4, repeated=1.0),
    "substring": World(groups=5, size=8, wrong=0.2, repeated=0.9, unanswered=0.3, unanswered_rewarded=0.5),
    "utilities_no_noise": World(groups=32, size=8, continuous=True, state_noise=4.0),
    "utilities_20": World(groups=32, size=8, continuous=True, wrong=0.2),
    "utilities_40": World(groups=32, size=8, continuous=True, wrong=0.4),
}


@dataclass(frozen=True, eq=False)
class Prompts:
    """P prompts: the features of their responses, the utility of each, and whether it is right.

    Attributes:
        features: [P, A + 1, F]; the last response is the one without an answer.
        utility: [P, A + 1] true reward where rewards are continuous.
        right: [P, A + 1] 1 for the answer of highest utility.
        flipped: [P, A + 1] whether the verifier errs on this answer whenever it is given.
    """

    features: Tensor
    utility: Tensor
    right: Tensor
    flipped: Tensor


def draw_prompts(count: int, direction: Tensor, world: World, draw: Generator) -> Prompts:
    """Draws prompts whose utilities follow `direction` [F] and noise that no policy can express."""
    features = torch.randn(count, ANSWERS + 1, FEATURES, generator=draw)
    features[:, ANSWERS] = 0.0
    features[:, ANSWERS, 0] = 1.0  # the response without an answer has a feature of its own
    features[:, :ANSWERS, 0] = 0.0
    utility = features @ direction + 0.15 * torch.randn(count, ANSWERS + 1, generator=draw)
    utility[:, ANSWERS] = utility[:, :ANSWERS].amin(dim=1) - 1.0
    right = torch.nn.functional.one_hot(utility.argmax(dim=1), ANSWERS + 1).float()
    flipped = torch.rand(count, ANSWERS + 1, generator=draw) < world.wrong
    return Prompts(features=features, utility=utility, right=right, flipped=flipped)


def first_policy(direction: Tensor, world: World, draw: Generator) -> Tensor:
    """[F] the policy of the warm start: halfway right, with the share of unanswered responses that the world has."""
    other = torch.randn(FEATURES, generator=draw)
    other -= (other @ direction) / (direction @ direction) * direction
    theta = 1.0 * direction + 1.0 * other / other.norm()
    theta[0] = -20.0
    if world.unanswered:
        # The mean of sum exp(theta' f) over eight answers is 8 exp(|theta|^2 / 2).
        rest = ANSWERS * torch.exp(theta[1:].square().sum() / 2)
        theta[0] = torch.log(world.unanswered / (1 - world.unanswered) * rest) - 0.5
    return theta


def observed_rewards(
    prompts: Prompts, prompt: Tensor, response: Tensor, world: World, draw: Generator
) -> tuple[Tensor, Tensor]:
    """[B] the rewards that the verifier gives, and the true ones."""
    rows = len(response)
    if world.continuous:
        true = prompts.utility[prompt, response]
        group = true.view(world.groups, world.size)
        low = group.amin(dim=1, keepdim=True)
        high = group.amax(dim=1, keepdim=True)
        opposite = torch.where(group < group.mean(dim=1, keepdim=True), high, low).flatten()
        wrong = torch.rand(rows, generator=draw) < world.wrong
        return torch.where(wrong, opposite, true), true
    true = prompts.right[prompt, response]
    by_answer = torch.rand(rows, generator=draw) < world.repeated
    anew = torch.rand(rows, generator=draw) < world.wrong
    wrong = torch.where(by_answer, prompts.flipped[prompt, response], anew)
    rewards = torch.where(wrong, 1 - true, true)
    praised = (torch.rand(rows, generator=draw) < world.unanswered_rewarded).float()
    return torch.where(response == ANSWERS, praised, rewards), true


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of B rollouts.

    Attributes:
        prompts: those that stay, as many as the world has groups.
        log_shares: [P, A + 1] how probable each response to them is under the policy.
        response: [B] the answers that were drawn.
        rewards, true: [B].
    """

    prompts: Prompts
    log_shares: Tensor
    response: Tensor
    rewards: Tensor
    true: Tensor


def draw_batch(world: World, direction: Tensor, theta: Tensor, draw: Generator) -> Batch:
    """Draws prompts, responses and rewards; with dynamic sampling until enough prompts have unequal rewards."""
    prompts = draw_prompts(world.groups, direction, world, draw)
    log_shares = (prompts.features @ theta).log_softmax(dim=1)
    response = torch.multinomial(log_shares.detach().exp(), world.size, replacement=True, generator=draw).flatten()
    group = torch.arange(world.groups).repeat_interleave(world.size)
    rewards, true = observed_rewards(prompts, group, response, world, draw)
    batch = Batch(prompts=prompts, log_shares=log_shares, response=response, rewards=rewards, true=true)
    if not world.dynamic_sampling:
        return batch
    by_group = rewards.view(world.groups, world.size)
    unequal = by_group.amin(dim=1) < by_group.amax(dim=1)
    if bool(unequal.all()):
        return batch
    rest = draw_batch(replace(world, groups=int((~unequal).sum())), direction, theta, draw)
    return joined(prompts_of(batch, unequal, world.size), rest)


def prompts_of(batch: Batch, kept: Tensor, size: int) -> Batch:
    """The part of a batch that belongs to the kept prompts [P], which have `size` responses each."""
    rows = kept.repeat_interleave(size)
    return Batch(
        prompts=Prompts(**{name: value[kept] for name, value in vars(batch.prompts).items()}),
        log_shares=batch.log_shares[kept],
        response=batch.response[rows],
        rewards=batch.rewards[rows],
        true=batch.true[rows],
    )


def joined(first: Batch, second: Batch) -> Batch:
    """Both batches as one."""
    of_second = vars(second.prompts)
    prompts = {name: torch.cat([value, of_second[name]]) for name, value in vars(first.prompts).items()}
    return Batch(
        prompts=Prompts(**prompts),
        log_shares=torch.cat([first.log_shares, second.log_shares]),
        response=torch.cat([first.response, second.response]),
        rewards=torch.cat([first.rewards, second.rewards]),
        true=torch.cat([first.true, second.true]),
    )


def second_verdicts(
    true: Tensor, group: Tensor, response: Tensor, wrong_share: float, draw: Generator
) -> Callable[[Sequence[int]], list[float]]:
    """A second verifier: the true rewards [B] of the rows that it is asked about, but for a share of the answers.

    On these it is wrong, whichever row gives them.
    """
    wrong = torch.rand(int(group.max()) + 1, ANSWERS + 1, generator=draw) < wrong_share
    verdicts = torch.where(wrong[group, response], 1 - true, true)
    return lambda rows: [float(verdicts[row]) for row in rows]


def train(
    world: World, curator: Any, seed: int, *, checks: bool = False, wrong_checks: float = 0.0
) -> tuple[float, dict[str, float]]:
    """Trains one policy.

    Args:
        checks: whether the curator may ask a second verifier about rows; all responses with an answer are the same one.
        wrong_checks: the share of answers on which the second verifier is wrong.

    Returns:
        The mean true reward of the final policy over new prompts, and the means over batches of what was measured.
    """
    draw = Generator().manual_seed(seed)
    direction = torch.randn(FEATURES, generator=draw)
    direction[0] = 0.0
    direction /= direction.norm()
    unseen = draw_prompts(512, direction, world, draw)
    theta = first_policy(direction, world, draw).requires_grad_()
    mixing = torch.randn(FEATURES, STATES, generator=draw) / FEATURES**0.5
    optimizer = torch.optim.Adam([theta], lr=LEARNING_RATE)
    curation_draw = Generator().manual_seed(seed)
    checks_draw = Generator().manual_seed(seed)
    measured: dict[str, list[float]] = {}
    group = torch.arange(world.groups).repeat_interleave(world.size)
    for _ in range(BATCHES):
        batch = draw_batch(world, direction, theta, draw)
        response = batch.response
        true = batch.true
        states = batch.prompts.features[group, response] @ mixing
        rollouts = Rollouts(
            rewards=batch.rewards,
            groups=group,
            hidden=states + world.state_noise * torch.randn(states.shape, generator=draw),
            true_rewards=true,
            second_rewards=true.__getitem__,
            answers=None if world.continuous else [None if a == ANSWERS else f"answer {a}" for a in response.tolist()],
        )
        if checks:
            second = second_verdicts(true, group, response, wrong_checks, checks_draw)
            rollouts = replace(rollouts, response_keys=response, second_rewards=second)
        curation = curator.curate(rollouts, generator=curation_draw)
        advantages = curation.advantages
        if advantages is None:
            advantages = group_advantages(curation.rewards, group[curation.source])
        weighted = torch.zeros(len(rollouts)).index_add_(0, curation.source, (advantages * curation.weights).float())
        wanted = group_advantages(true, group)
        cosine = float(weighted @ wanted / (weighted.norm() * wanted.norm()).clamp(min=1e-9))
        for name, value in {**curation.metrics, "cosine": cosine}.items():
            measured.setdefault(name, []).append(value)
        loss = -(weighted * batch.log_shares[group, response]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        shares = (unseen.features @ theta).softmax(dim=1)
        gained = unseen.utility if world.continuous else unseen.right
        final = float((shares * gained).sum(dim=1).mean())
    return final, {name: sum(values) / len(values) for name, values in measured.items()}


def curators(names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """What makes a curator for each run: by registered name, `clean` for true rewards."""
    made: dict[str, Callable[[], Any]] = {name: CURATORS[name] for name in names}
    if "denoise" in made:
        made["denoise_answers"] = lambda: Denoise(geometry="none")
    return made


def main() -> None:
    """Prints a line for each world: the final true reward under each curator, a mean over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default=",".join(WORLDS), help="names, separated by commas")
    parser.add_argument("--curators", default="grpo,denoise", help="names, separated by commas")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # what a curator cannot tell stands in the column `identified`
    for name in options.worlds.split(","):
        of_first: dict[int, float] = {}
        for arm, make in curators(options.curators.split(",")).items():
            if WORLDS[name].continuous and arm in ("denoise_answers", "majority_vote"):
                continue
            runs = [train(WORLDS[name], make(), seed) for seed in range(options.seeds)]
            finals = {seed: final for seed, (final, _) in enumerate(runs)}
            line = f"{name:24} {arm:16} {sum(finals.values()) / len(finals):.3f}"
            if of_first:
                gain = paired_difference(finals, of_first).interval
                line += f"  {gain.estimate:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
            of_first = of_first or finals
            for key in ("cosine", "identified", "error_correlation"):
                if key in runs[0][1]:
                    line += f"  {key} {sum(measured[key] for _, measured in runs) / len(runs):.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
