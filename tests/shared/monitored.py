"""What a curator that only watches says in every engine, under the same names, of verdicts on answers."""

_RATES = ("false_positive_rate", "false_negative_rate", "informedness")
METRICS = {f"geoalign/{name}{end}" for name in _RATES for end in ("", "_low", "_high")}
METRICS |= {"geoalign/anomalous_share", "geoalign/alarms", "geoalign/raw_reward"}
