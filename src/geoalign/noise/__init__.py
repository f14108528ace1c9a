"""The noise model: how far a verdict is to be believed, from what equal answers and hidden states say."""
