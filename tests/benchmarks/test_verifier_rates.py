from benchmarks.verifier_rates import RATES, Claim, claims, coins_that_pass, made_tables, recipe


def test_the_example_is_bounded_and_holds():
    positive, negative = claims("example", "substring", recipe())
    assert (positive.rate, negative.rate) == RATES
    assert positive.by == negative.by == "bounds"
    assert 0.28 < positive.low < positive.truth < positive.high < 0.77
    assert (negative.low, negative.truth, negative.high) == (0, 0, 1)


def test_an_interval_beside_the_truth_is_counted_as_missed():
    found = {"table": "t", "name": "n", "rate": RATES[0], "truth": 0.2, "by": "model"}
    assert Claim(low=0.1, high=0.2, **found).holds
    assert not Claim(low=0.21, high=0.5, **found).holds


def test_of_every_kind_of_verifier_a_table_is_claimed_upon():
    """One small world of each kind; of twenty-four claims at most two miss."""
    found = [claim for kind, name, table in made_tables(1) for claim in claims(kind, name, table)]
    assert len(found) == 24
    assert sum(claim.holds for claim in found) >= 22


def test_hardly_a_coin_passes_the_test_against_chance():
    passed, simulated = coins_that_pass(4, [(50, 8, 0.5, 2)])
    assert simulated == 4
    assert passed <= 1
