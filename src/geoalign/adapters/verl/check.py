"""What can be checked of a run's settings before Ray starts. Imports no verl.

    python3 -m verl.trainer.main_ppo ... your settings ... --cfg job --resolve > run.yaml
    python3 -m geoalign.adapters.verl.check run.yaml

Hydra composes the settings without running anything; the trainer makes the same checks when it starts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.adapters.decision import make_session
from geoalign.adapters.second_verifier import SecondVerifier, verifier_of_settings
from geoalign.adapters.settings import SECTION, StateSettings, read_section
from geoalign.adapters.verl.batch import GOLD
from geoalign.adapters.verl.refusals import check_config, check_drops, check_mode
from geoalign.curators.session import CurationSession
from geoalign.errors import GeoAlignError


def checked_session(config: Mapping[str, Any]) -> tuple[StateSettings, CurationSession, SecondVerifier | None]:
    """The settings of the section `geoalign`, their curator and their second verifier, out of verl's resolved
    configuration as plain data.

    Raises:
        UnsupportedError: a setting of verl's under which the curator cannot be carried out.
        ConfigError: a setting of ours that is unknown, out of range or missing.
    """
    check_config(config)
    place = "such as +geoalign.curator.type=geoalign"
    settings = read_section(StateSettings, config.get(SECTION), engine="verl", path=SECTION, place=place)
    how = "+geoalign.rollout_fields.{need}=<name in the reward function's result>"
    session = make_session(settings, how=how)
    check_drops(config, session.name, drops=session.curator.drops_rows)
    return settings, session, verifier_of_settings(settings, session, gold=GOLD, path=SECTION)


def main(arguments: Sequence[str]) -> str:
    """Checks the file of composed settings that the arguments name; returns what to print, or raises SystemExit."""
    if len(arguments) != 1:
        raise SystemExit("usage: python3 -m geoalign.adapters.verl.check run.yaml")
    # verl comes with it; `checked_session` works without.
    from omegaconf import OmegaConf

    config: Any = OmegaConf.to_container(OmegaConf.load(arguments[0]))
    try:
        check_mode(config)
        settings, session, _ = checked_session(config)
    except GeoAlignError as error:
        raise SystemExit(str(error)) from error
    answers = settings.rollout_fields.get("answers")
    return f"{session.name}: hidden_position={settings.hidden_position}, answers from {answers or 'nowhere'}"


if __name__ == "__main__":
    print(main(sys.argv[1:]))
