import pytest

from geoalign.errors import ConfigError
from geoalign.lab.http_client import token_from


def test_the_token_of_a_variable() -> None:
    assert token_from("TOKEN", key="token_env", environment={"TOKEN": " sk-1\n", "OTHER": "sk-2"}) == "sk-1"


@pytest.mark.parametrize("environment", [{}, {"TOKEN": ""}, {"TOKEN": "  "}, {"OTHER": "sk-1"}])
def test_a_variable_without_a_token_is_an_error(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"^a\.token_env: expected a token .* in \$TOKEN, got none"):
        token_from("TOKEN", key="a.token_env", environment=environment)


@pytest.mark.parametrize("value", ["sk-1\r\nX-Other: 2", "sk 1", "sk-é", "sk\x00", "sk\nlines"])
def test_a_token_that_cannot_stand_in_a_header_is_refused_unseen(value: str) -> None:
    with pytest.raises(ConfigError, match="got something else") as caught:
        token_from("TOKEN", key="token_env", environment={"TOKEN": value})
    assert "sk" not in str(caught.value)
