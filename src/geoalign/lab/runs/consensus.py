"""Whether the responses of a run had a consensus to trust: the accuracy on groups that no projector was trained on."""

from __future__ import annotations

from pandas import DataFrame

from geoalign.console.numbers import ends, percent
from geoalign.lab.runs.numbers import accuracy_on_new_groups, series_of
from geoalign.lab.runs.reading import Run
from geoalign.pages.headlines import CHANCE, HEADLINES, Verdict, level_of

# With fewer steps a last quarter is too few for an interval that says anything.
_LATE_FROM = 16


def consensus(run: Run, numbers: DataFrame) -> Verdict:
    """Compares accuracy on new groups with chance, over the run and over its last quarter.

    The interval is Student's t over steps, taken as independent; one step has its own interval over groups.
    """
    steps = len(series_of(numbers, "new_group_accuracy"))
    if not steps:
        return Verdict("unknown", "No accuracy on new groups was measured.", _why_unmeasured(run), 0)
    overall = accuracy_on_new_groups(numbers)
    level = level_of(overall, CHANCE)
    over = "one step" if steps == 1 else f"mean over {steps} steps"
    text = (
        f"On groups the projector had not been trained on, it told the better response of a pair from the worse one in "
        f"{overall.estimate:.1%} of pairs ({over}; 95% interval {ends(overall, percent)}; chance {CHANCE:.0%})."
    )
    if steps >= _LATE_FROM:
        last = steps // 4
        late = accuracy_on_new_groups(numbers, last)
        text += f" Over the last {last} of these steps it was {late.estimate:.1%} ({ends(late, percent)})."
        if level == "yes" and level_of(late, CHANCE) != "yes":
            level = "faded"
    return Verdict(level, HEADLINES[level], text, steps)


def _why_unmeasured(run: Run) -> str:
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) looks for no consensus."
    return (
        f"The curator {run.curator_name} logged none: it trains no projector, or the first batch was the only one "
        "(a projector is tested on a new batch before it is trained on it)."
    )
