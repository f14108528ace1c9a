"""What `trinity.common.models.mm_utils` imports."""


class ModelConfig:
    """A name."""
