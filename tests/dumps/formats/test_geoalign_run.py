from dumps import write_dump
from written import read


def test_true_rewards_and_lengths(tmp_path):
    _, found = read(write_dump(tmp_path, "geoalign"))
    assert found[14].true_reward == 0.2
    assert found[14].tokens == 7
    assert found[14].step == 4
