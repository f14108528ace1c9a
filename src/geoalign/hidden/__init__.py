"""Hidden states of rollouts: which position, how to tap a running model, and batched offline extraction."""

from geoalign.hidden.extract import ExtractedStates, extract_states, extract_states_from_texts
from geoalign.hidden.positions import HIDDEN_POSITIONS, HiddenPosition, response_states
from geoalign.hidden.tap import BackboneTap, backbone_of

__all__ = [
    "HIDDEN_POSITIONS",
    "BackboneTap",
    "ExtractedStates",
    "HiddenPosition",
    "backbone_of",
    "extract_states",
    "extract_states_from_texts",
    "response_states",
]
