"""The formats of rollout files that are known; `format.py` says how to add one."""

from geoalign.dumps.formats.format import Format
from geoalign.dumps.formats.geoalign_run import GEOALIGN
from geoalign.dumps.formats.inspect_ai import INSPECT
from geoalign.dumps.formats.nemo_gym import NEMO_GYM
from geoalign.dumps.formats.nemo_rl import NEMO_RL
from geoalign.dumps.formats.plain import PLAIN, RESPONSES
from geoalign.dumps.formats.slime import SLIME
from geoalign.dumps.formats.trackio import TRACKIO
from geoalign.dumps.formats.trinity import TRINITY
from geoalign.dumps.formats.trl import TRL
from geoalign.dumps.formats.verifiers import VERIFIERS
from geoalign.dumps.formats.verifiers_results import VERIFIERS_RESULTS
from geoalign.dumps.formats.verl import VERL

# The more particular first: of those that fit equally many rows the first is taken.
FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        GEOALIGN, TRL, TRINITY, VERL, NEMO_RL, NEMO_GYM, VERIFIERS, VERIFIERS_RESULTS, INSPECT, TRACKIO, SLIME,
        RESPONSES, PLAIN,
    )
}  # fmt: skip
