"""Curation inside slime, vime and miles: functions that they load by path. None of them is imported.

`geoalign.adapters.slime.post_process_rewards` goes to `--custom-reward-post-process-path`,
`geoalign.adapters.slime.data_source` to `--data-source-path`; settings are the section `geoalign` in the file of
`--custom-config-path`.
"""

from geoalign.adapters.failures import unscored_on_failure
from geoalign.adapters.slime.hooks import data_source, post_process_rewards

__all__ = ["data_source", "post_process_rewards", "unscored_on_failure"]
