"""Why the error rates of a model of the verdicts are not believed, in words."""

NO_ANSWERS = "no rollout has an answer, and no response got both verdicts"
NEVER = "verdicts on equal answers never contradict each other, so errors that repeat with the answer would not show"
HARDLY = (
    "verdicts on equal answers hardly contradict each other (in {seen:,.0f} pairs, where errors that do not repeat "
    "would leave about {expected:,.0f}), so errors that repeat with the answer would not show"
)
FEW = "too few answers were judged twice to tell whether errors repeat with the answer"
CLUSTERED = "errors do not strike verdicts one by one: {what} than such errors would leave"
BY_CHANCE = "verdicts follow the answers hardly more than chance would have it"
