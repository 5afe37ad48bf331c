"""--cfg: the configuration that a command line makes, as YAML."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grpo.config import overrides
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.schema import AXES
from grpo.errors import ConfigError, Mistake


def show(arguments: Sequence[str], composer: Composer, kind: str, package: str | None, resolve: bool) -> int:
    """Print the configuration (kind job | hydra | all), or one node of it; then what is wrong with it, if anything.

    `package` is a node such as surrogate or updates.minibatches; `objective` is all parts of the algorithm.
    """
    from hydra.types import RunMode
    from omegaconf import Container, OmegaConf, open_dict

    words = overrides.read(arguments, composer)
    if words.mistakes:
        raise ConfigError(words.mistakes)
    composer.compose(words.all)  # a sentence for what Hydra cannot compose
    config = composer.loader.load_configuration("config", words.all, run_mode=RunMode.RUN, from_shell=False)
    with open_dict(config):
        hydra = config.pop("hydra")
        if kind != "job":
            config = OmegaConf.create({"hydra": hydra} if kind == "hydra" else {**config, "hydra": hydra})
    if resolve:
        OmegaConf.resolve(config)
    if package == "objective":
        node = OmegaConf.masked_copy(config, list(AXES))
    else:
        node = OmegaConf.select(config, package) if package not in (None, "_global_") else config
    if node is None:
        raise ConfigError([Mistake(f"--package {package}", "there is no such node; try objective, or a group's name")])
    if not isinstance(node, Container):
        print(node)
    else:
        print((f"# @package {package}\n" if package else "") + OmegaConf.to_yaml(node), end="")
    return _verdict(arguments, composer)


def _verdict(arguments: Sequence[str], composer: Composer) -> int:
    """What is shown may still be impossible; a look at it is then the more useful."""
    try:
        load(arguments, composer)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0
