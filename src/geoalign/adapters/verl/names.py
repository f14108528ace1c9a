"""The names by which the parts of the adapter find each other inside verl. Imports nothing."""

from __future__ import annotations

# `VERL_ENGINE_VENDOR=geoalign` makes verl's registry pick our engine, and switches the plug-in on.
VENDOR = "geoalign"
VENDOR_VARIABLE = "VERL_ENGINE_VENDOR"
# In a batch's `extra_info`: the forward pass that carries a position returns hidden states, any other does not. The
# layers are JSON: verl reads a list as one value a row.
POSITION_KEY, LAYER_KEY = "geoalign_hidden_position", "geoalign_hidden_layer"
# Of the hidden states in TransferQueue, one state per row.
HIDDEN_KEY = "geoalign_hidden"
# Of the tokens with which answers begin, -1 where there is none; for the position `anchor`.
ANSWER_KEY = "geoalign_answer_start"
# `trainer.v1.trainer_mode` -> verl's mode of which it is the curated form.
MODES = {
    "geoalign_sync": "sync",
    "geoalign_colocate_async": "colocate_async",
    "geoalign_separate_async": "separate_async",
}
# Of each row's reward (the sum over its tokens) and of the key of its response, from the same pass.
REWARD_KEY, RESPONSE_KEY = "geoalign_reward", "geoalign_response_key"
# verl's tag of a row with the length of its response.
LENGTH_TAG = "response_len"
