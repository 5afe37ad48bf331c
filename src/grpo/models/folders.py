"""Where a policy lives: embedded, converted by `make smollm2`, in the user's folder, or on the hub. Nothing heavy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from grpo.errors import UserError

if TYPE_CHECKING:
    from grpo.config.schema import ModelConfig

TINY = Path(__file__).parent / "tiny"


def models_home() -> Path:
    """$GRPO_MODELS; else `models/` of the source checkout; else `models/` of the current folder (installed wheel)."""
    if chosen := os.environ.get("GRPO_MODELS"):
        return Path(chosen).expanduser()
    checkout = Path(__file__).resolve().parents[3]
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "models"


def smollm2_folder() -> Path:
    """Where `make smollm2` puts the converted model and `model=smollm2` looks for it."""
    return models_home() / "smollm2"


def locate(config: ModelConfig) -> str:
    """Folder or hub id of `config`, checked as far as the disk can tell."""
    if config.kind == "tiny":
        return str(_existing(Path(config.path), "model.path") if config.path else TINY)
    if config.kind == "smollm2":
        folder = Path(config.path).expanduser() if config.path else smollm2_folder()
        if not (folder / "config.json").is_file():
            raise UserError(f"model   SmolLM2 is not at {folder} yet; run `make smollm2`")
        return str(folder)
    if not config.path:
        raise UserError("model.path   model=hf needs a folder or a hub id; say model.path=<folder or owner/name>")
    path = Path(config.path).expanduser()
    if path.exists() or not _is_hub_id(config.path):
        return str(_existing(path, "model.path"))
    return config.path


def _is_hub_id(text: str) -> bool:
    """`owner/name` or `name`; anything with more slashes, or one at an end, is a folder."""
    parts = text.split("/")
    return len(parts) <= 2 and all(parts) and parts[0] not in (".", "..", "~")


def _existing(folder: Path, key: str) -> Path:
    folder = folder.expanduser()
    if not folder.is_dir():
        raise UserError(f"{key}   there is no folder {folder}; give a Hugging Face model folder or a hub id")
    if not (folder / "config.json").is_file():
        raise UserError(f"{key}   {folder} has no config.json, so it is no Hugging Face model folder")
    return folder
