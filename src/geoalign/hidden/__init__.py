"""Hidden states of rollouts: which position and layer, how to tap a running model, and batched offline extraction."""

from geoalign.hidden.answer_tokens import answer_starts
from geoalign.hidden.extract import ExtractedStates, extract_states, extract_states_from_texts
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap, backbone_of
from geoalign.settings.hidden import HIDDEN_POSITIONS, HiddenLayer, HiddenPosition

__all__ = [
    "HIDDEN_POSITIONS",
    "BackboneTap",
    "ExtractedStates",
    "HiddenLayer",
    "HiddenPosition",
    "answer_starts",
    "backbone_of",
    "extract_states",
    "extract_states_from_texts",
    "response_states",
]
