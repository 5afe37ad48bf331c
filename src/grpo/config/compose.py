"""conf/ + overrides → plain YAML, by Hydra's own loader; no run folder, no log files, no DictConfig for anyone else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.errors import ConfigError, Mistake

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

MISSING = "???"


def conf_dir() -> Path:
    """The package's conf/ (wheel) or the repository's (editable install, which ignores force-include)."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "conf", package.parents[1] / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise ConfigError([Mistake("conf", f"is neither in {package} nor in {package.parents[1]}; reinstall grpo-lab")])


class Composer:
    """Hydra's config loader on conf/ and, before it, a folder of the user's own (`--config-dir`)."""

    def __init__(self, own: str | os.PathLike[str] | None = None, base: str | os.PathLike[str] | None = None) -> None:
        from hydra import version
        from hydra._internal.config_loader_impl import ConfigLoaderImpl
        from hydra._internal.utils import create_config_search_path
        from hydra.core.utils import setup_globals
        from omegaconf import OmegaConf

        version.setbase("1.3")
        setup_globals()
        OmegaConf.register_new_resolver("lr_of", lr_of, replace=True)
        self.folders = [Path(base or conf_dir())]
        if own is not None:
            if not Path(own).is_dir():
                raise ConfigError([Mistake("--config-dir", f"there is no folder {own}")])
            self.folders.insert(0, Path(own).resolve())
        search = create_config_search_path(str(self.folders[-1]))
        for folder in self.folders[:-1]:
            search.prepend(provider="command-line", path=f"file://{folder}", anchor="schema")
        self.loader = ConfigLoaderImpl(search)
        self.loader.repository = _remembering(self.loader.repository)
        self._composed: dict[tuple[str, ...], dict[str, Any]] = {}

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Group → its options; an option in a subfolder is called chapter/dapo."""
        found: dict[str, set[str]] = {}
        for folder in self.folders:
            for file in folder.glob("*/**/*.yaml"):
                group, _, option = file.relative_to(folder).with_suffix("").as_posix().partition("/")
                if group != "hydra":
                    found.setdefault(group, set()).add(option)
        return {group: sorted(options) for group, options in sorted(found.items())}

    @cached_property
    def defaults(self) -> dict[str, str]:
        """Group → option of the base configuration; algo, preset and experiment are not among them."""
        from omegaconf import OmegaConf

        file = next(folder / "config.yaml" for folder in self.folders if (folder / "config.yaml").is_file())
        listed = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        entries = listed.get("defaults", []) if isinstance(listed, dict) else []
        return {str(k): str(v) for entry in entries if isinstance(entry, dict) for k, v in entry.items()}

    def parse(self, override: str) -> Override:
        """One override in Hydra's grammar."""
        from hydra.core.override_parser.overrides_parser import OverridesParser

        return OverridesParser.create(config_loader=self.loader).parse_overrides([override])[0]

    def compose(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The resolved plain dict, with `choices`; a mistake that only Hydra can see becomes a sentence too."""
        key = tuple(overrides)
        if key not in self._composed:
            self._composed[key] = self._compose(key)
        return deepcopy(self._composed[key])

    def _compose(self, overrides: tuple[str, ...]) -> dict[str, Any]:
        from hydra.errors import HydraException
        from omegaconf import OmegaConf, open_dict
        from omegaconf.errors import OmegaConfBaseException

        from hydra.types import RunMode  # isort: skip

        try:
            config = self.loader.load_configuration(
                "config", list(overrides), run_mode=RunMode.RUN, from_shell=False, validate_sweep_overrides=True
            )
            choices = {k: v for k, v in config.hydra.runtime.choices.items() if not k.startswith("hydra/") and v}
            with open_dict(config):
                del config["hydra"]
            plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
        except OmegaConfBaseException as error:
            raise ConfigError([Mistake(str(error.full_key or "configuration"), _reason(error))]) from error
        except HydraException as error:
            raise ConfigError([Mistake("configuration", _reason(error))]) from error
        assert isinstance(plain, dict)
        return {str(k): v for k, v in plain.items()} | {"choices": choices}


def lr_of(model: Mapping[str, Any]) -> Any:
    """`${lr_of:${model}}`: the learning rate that suits a model node; an adapter wants ten times as much.

    Schulman et al., "LoRA Without Regret" (2025): the best rate of LoRA is about 10 × that of all weights, at any rank.
    """
    lr, lora = model.get("lr"), model.get("lora")
    on = isinstance(lora, Mapping) and lora.get("r") is not None
    if not on or not isinstance(lr, int | float) or isinstance(lr, bool):  # what is no number the schema refuses
        return lr
    return float(f"{10 * lr:.12g}")


def _remembering(repository: Any) -> Any:
    """Hydra reads every file again for each composition, which is most of its time: remember what was read."""
    from hydra._internal.config_repository import CachingConfigRepository

    class Remembering(CachingConfigRepository):
        def load_config(self, config_path: str) -> Any:
            return deepcopy(super().load_config(config_path))

        def initialize_sources(self, config_search_path: Any) -> None:  # hydra.searchpath=[...]
            self.cache.clear()
            super().initialize_sources(config_search_path)

        def __deepcopy__(self, memo: Any) -> Remembering:  # Hydra copies its repository per composition
            return self

    return Remembering(repository)


def _reason(error: Exception) -> str:
    """The first line of an OmegaConf or Hydra message, in our words where it is a common one."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    key = re.match(r"Interpolation key '(.+)' not found", text)
    return f"refers to ${{{key[1]}}}, which is no key" if key else text
