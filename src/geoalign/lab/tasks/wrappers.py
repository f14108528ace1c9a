"""Instruction texts that data sets put around a problem; the paper's prompt has the bare problem."""

from __future__ import annotations

_DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.",
    'Remember to put your answer on its own line after "Answer:".',
)
# Twenty Chinese problems of DAPO-Math-17k keep this below them.
_DAPO_CHINESE = (
    "让我们一步一步地思考。请以“Answer: \\boxed{<final_answer>}”的格式输出最终答案。"
    "如果是选择题，请按顺序输出正确的选项，不带任何标点或空格。对于其他类型的问题，请只输出最终答案的数值。"
)

# What stands before and after a problem; either may be empty.
WRAPPERS: tuple[tuple[str, str], ...] = (
    _DAPO,
    ("", _DAPO_CHINESE),
    ("", "Please reason step by step, and put your final answer within \\boxed{}."),
    ("", "Let's think step by step and output the final answer within \\boxed{}."),
    ("", 'Let\'s think step by step and output the final answer after "####".'),
)


def bare_problem(text: str) -> str:
    """The problem without one of the `WRAPPERS`; a text without one stays as it is, outer spaces included."""
    stripped = text.strip()
    for before, after in WRAPPERS:
        if stripped.startswith(before) and stripped.endswith(after):
            inner = stripped.removeprefix(before).removesuffix(after).strip()
            if inner:
                return inner
    return text
