"""What the author of a curator tests it with: the contract that every curator keeps.

    from geoalign.testing import check_curator

    def test_the_contract():
        check_curator(Clipped)

`curator_checks` gives the same promises one by one, so that each can be a test of its own. Nothing here needs pytest.
"""

from geoalign.testing.batches import RewardKind as RewardKind
from geoalign.testing.contract import Check as Check
from geoalign.testing.contract import check_curator as check_curator
from geoalign.testing.contract import curator_checks as curator_checks
from geoalign.testing.synthetic import synthetic_rollouts as synthetic_rollouts

__all__ = ["Check", "RewardKind", "check_curator", "curator_checks", "synthetic_rollouts"]
