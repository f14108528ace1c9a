"""What a curator that only watches says in every engine, under the same names, of verdicts on answers."""

# The rates are left out where, as in the few rows of these tests, the verdicts do not tell them. What is proved stays.
_PROVED = ("least_false_positive_rate", "least_false_negative_rate", "least_wrong_share")
METRICS = {f"geoalign/{name}" for name in _PROVED}
METRICS |= {"geoalign/anomalous_share", "geoalign/alarms", "geoalign/raw_reward"}
