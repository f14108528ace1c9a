import pytest

from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer
from geoalign.lab.models.settings import TinyModelConfig


@pytest.fixture
def tokenizer():
    return make_tokenizer("0123456789+=;\\boxed{}", max_length=256)


@pytest.fixture
def model(tokenizer):
    return make_tiny_model(TinyModelConfig(hidden_size=32, layers=2, heads=2), tokenizer, seed=0)
