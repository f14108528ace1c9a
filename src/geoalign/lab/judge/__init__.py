"""The pairwise judge: two response files, both orders of every pair, the paper's prompt, win, lose and tie rates."""

from __future__ import annotations

from geoalign.lab.judge.command import judge
from geoalign.lab.judge.outcome import Answer, JudgedPair, Judgment
from geoalign.lab.judge.pairs import MatchedResponses, ResponsePair, match_responses
from geoalign.lab.judge.prompt import SYSTEM_PROMPT, Comparison, judge_messages
from geoalign.lab.judge.summary import JudgeSummary, summarise
from geoalign.lab.judge.verdict import MalformedVerdictError, Verdict, parse_verdict

__all__ = [
    "SYSTEM_PROMPT",
    "Answer",
    "Comparison",
    "JudgeSummary",
    "JudgedPair",
    "Judgment",
    "MalformedVerdictError",
    "MatchedResponses",
    "ResponsePair",
    "Verdict",
    "judge",
    "judge_messages",
    "match_responses",
    "parse_verdict",
    "summarise",
]
