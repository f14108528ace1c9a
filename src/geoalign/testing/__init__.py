"""What authors of curators and of adapters test them with: the contracts that all of them keep.

    from geoalign.testing import check_curator

    def test_the_contract():
        check_curator(Clipped)

`curator_checks` gives the same promises one by one, so that each can be a test of its own. `adapter_checks` gives those
of an adapter. Nothing here needs pytest.
"""

from geoalign.testing.adapters import AdapterCheck as AdapterCheck
from geoalign.testing.adapters import TrainedRows as TrainedRows
from geoalign.testing.adapters import adapter_checks as adapter_checks
from geoalign.testing.batches import RewardKind as RewardKind
from geoalign.testing.contract import Check as Check
from geoalign.testing.contract import check_curator as check_curator
from geoalign.testing.contract import curator_checks as curator_checks
from geoalign.testing.synthetic import synthetic_rollouts as synthetic_rollouts

__all__ = [
    "AdapterCheck",
    "Check",
    "RewardKind",
    "TrainedRows",
    "adapter_checks",
    "check_curator",
    "curator_checks",
    "synthetic_rollouts",
]
