"""The names by which the parts of the adapter find each other inside verl. Imports nothing."""

from __future__ import annotations

# `VERL_ENGINE_VENDOR=geoalign` makes verl's registry pick our engine, and switches the plug-in on.
VENDOR, VENDOR_VARIABLE = "geoalign", "VERL_ENGINE_VENDOR"
# In a batch's `extra_info`: the forward pass that carries a position returns hidden states, any other does not. The
# layers are JSON: verl reads a list as one value a row.
POSITION_KEY, LAYER_KEY = "geoalign_hidden_position", "geoalign_hidden_layer"
# What the pass leaves in TransferQueue of each row: its state, the token with which its answer begins (-1: none; for
# the position `answer_start`), its reward (the sum over its tokens), the key of its response.
HIDDEN_KEY, ANSWER_KEY = "geoalign_hidden", "geoalign_answer_start"
REWARD_KEY, RESPONSE_KEY = "geoalign_reward", "geoalign_response_key"
# verl's tag of a row with the length of its response.
LENGTH_TAG = "response_len"
