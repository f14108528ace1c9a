"""Settings of an engine whose curator asks a second verifier, for the contract of adapters."""


def settings_with(second_verifier):
    """The plain settings of the contract, or where there is a second verifier those with it.

    The contract puts a curator of its own in the place of theirs.
    """
    if second_verifier is None:
        return {"curator": "grpo"}
    asks = {"type": "appeals", "curator": {"type": "denoise", "geometry": "none"}}
    return {"curator": asks, "second_verifier": second_verifier}
