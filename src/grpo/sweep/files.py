"""The sweep files there are: in the working directory's sweeps/, then those that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo.config import sentences
from grpo.errors import ConfigError, Mistake


def folders() -> list[Path]:
    """./sweeps, then the package's (wheel) or the repository's (editable install)."""
    package = Path(__file__).resolve().parents[1]
    places = [Path.cwd() / "sweeps", package / "sweeps", package.parents[1] / "sweeps"]
    return list(dict.fromkeys(place for place in places if place.is_dir()))


def known() -> dict[str, Path]:
    """Name → file; the first of a name counts. Files of W&B sweeps (wandb_*) are not ours."""
    found: dict[str, Path] = {}
    for folder in folders():
        for file in sorted(folder.glob("*.yaml")):
            if not file.name.startswith("wandb_"):
                found.setdefault(file.stem, file)
    return found


def find(name: str) -> Path:
    """clip_high, or the path of a file of one's own."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        if not Path(name).is_file():
            raise ConfigError([Mistake("grpo.sweep", f"there is no file {name}")])
        return Path(name)
    names = known()
    if name not in names:
        near = sentences.meant(name, names)
        where = f"all: {', '.join(sorted(names))}; or give a file of your own, FILE.yaml"
        raise ConfigError([Mistake("grpo.sweep", f"there is no sweep {name}{near} ({where})")])
    return names[name]


def read(path: Path) -> dict[str, Any]:
    """The plain content of a sweep file. OmegaConf reads 1e-4 as a number, PyYAML alone as text."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        plain = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (YAMLError, OmegaConfBaseException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError([Mistake(str(path), f"cannot be read as YAML: {reason}")]) from error
    if not isinstance(plain, dict):
        raise ConfigError([Mistake(str(path), "is no question; it needs at least arms, baseline and endpoint")])
    return {str(key): value for key, value in plain.items()}


def listed() -> str:
    """--list: each sweep file with its claim."""
    names = known()
    width = max(map(len, names), default=0)
    lines = []
    for name, path in sorted(names.items()):
        try:
            claim = read(path).get("claim")
        except ConfigError as error:
            claim = str(error)
        text = claim.get("text") if isinstance(claim, dict) else claim
        lines.append(f"  {name:<{width}}  {text or ''}".rstrip())
    return "\n".join(lines or ["there are no sweep files in " + ", ".join(map(str, folders()))])
