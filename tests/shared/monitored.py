"""What a curator that only watches says in every engine, under the same names, of verdicts on answers."""

# The intervals of the rates are left out where, as in the few rows of these tests, the verdicts do not tell them.
_RATES = ("false_positive_rate", "false_negative_rate", "informedness")
METRICS = {f"geoalign/{name}" for name in _RATES}
METRICS |= {"geoalign/anomalous_share", "geoalign/alarms", "geoalign/raw_reward"}
