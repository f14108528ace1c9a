from benchmarks.audit import alarm, cost, covered


def test_intervals_cover_the_rates_of_simulated_verifiers():
    found = [covered(seed, prompts=200, size=8) for seed in range(12)]
    # Of 24 intervals of 95% fewer than 20 cover in one of 6,000 draws.
    assert sum(map(sum, found)) >= 20


def test_a_verifier_without_errors_raises_no_alarm():
    for seed in range(3):
        excluded, flagged = alarm(seed, prompts=100)
        assert not excluded
        assert flagged < 0.05


def test_the_cost_of_a_call_is_measured():
    found = cost(64, steps=2)
    assert set(found) == {"rows", "steps", "size", "on the clock", "seconds", "passes", "GB", "page MB"}
    assert 0.05 < found["GB"] < 2
    assert found["page MB"] < 6
