"""Several verifiers on the same rows: who accepts what, who contradicts whom, who errs how often, who is best.

    asking.py           lets each verifier judge, all rows or drawn ones
    calls.py            the calls of one: what fails or takes too long is counted
    judged_rows.py      the verdicts of all of them, the file's reward among them, as one table of 1, 0 and NaN
    agreement.py        how much each accepts, and on which rows two contradict each other
    rates.py            error rates: what the verdicts of one verifier prove, and what checked rows say of it
    model.py            what a model of all verifiers guesses, and when it may
    ranking.py          the verifiers from the best to the worst, with ties
    summary.py          all of this as `verifiers` of summary.json
    frame.py            the same as a DataFrame

In the order of trust: bounds need no model; rates by checks rest on rows that were drawn at random and checked; the
model guesses, without an interval, and only where answers exclude each other and at least four verifiers judge. Nothing
of this says which of two verifiers is right on a row: one of them is.
"""
