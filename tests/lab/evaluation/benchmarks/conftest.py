import pytest

from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A byte-level model of two thousand positions, as `from_pretrained` reads it."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = make_tokenizer(None, max_length=2048)
    model = make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=2, max_length=2048), tokenizer, seed=0)
    save(model, tokenizer, folder)
    return folder
