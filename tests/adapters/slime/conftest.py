import pytest
from slime_parts import recorded


@pytest.fixture
def batch():
    """Three prompts, four rollouts each, the eighth cut off; rewards 1 1 0 0, 1 1 1 0, 0 1 0 1."""
    return recorded()
