"""What the environment says to W&B: a key, a mode, and whether an agent of a W&B sweep started this process."""

from __future__ import annotations

import hashlib
import logging
import netrc
import os
import secrets
from pathlib import Path
from urllib.parse import urlparse

from grpo.errors import UserError

log = logging.getLogger(__name__)


def has_key() -> bool:
    """True if W&B would find a key without asking: WANDB_API_KEY, an identity token, or the netrc file."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    candidates = [os.environ.get("NETRC"), Path.home() / ".netrc", Path.home() / "_netrc"]
    for file in (Path(c) for c in candidates if c):
        try:
            if file.exists() and netrc.netrc(file).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False


def choose_mode(mode: str) -> str:
    """online, offline or disabled. auto obeys WANDB_MODE, else is online where there is a key and offline elsewhere."""
    if mode == "auto":
        wish = os.environ.get("WANDB_MODE", "").lower()
        mode = {"dryrun": "offline", "run": "online"}.get(wish, wish) or ("online" if has_key() else "offline")
        if mode == "online" and not has_key():
            raise UserError("WANDB_MODE   online needs a W&B key; run `wandb login`, or unset WANDB_MODE")
    elif mode == "online" and not has_key():
        raise UserError("logger.mode   online needs a W&B key; run `wandb login`, or choose logger.mode=offline")
    if mode not in ("online", "offline", "disabled"):
        raise UserError(f"WANDB_MODE   {mode} is unknown; use online, offline or disabled")
    return mode


def sweep_id() -> str | None:
    """The W&B sweep whose agent started this process, or None."""
    return os.environ.get("WANDB_SWEEP_ID") or None


def run_id(folder: Path) -> str:
    """The W&B id of the run in `folder`, kept in <folder>/wandb/run_id.txt.

    An agent has already opened a run under an id of its own and waits for that one (W&B ignores any other id), so its
    id wins over the folder's. Otherwise the id is drawn once: a run that is resumed finds itself again, and two runs
    never share one.
    """
    file = folder / "wandb" / "run_id.txt"
    known = file.read_text().strip() if file.exists() else ""
    given = os.environ.get("WANDB_RUN_ID", "") if sweep_id() else ""
    chosen = given or known or secrets.token_hex(6)
    if known and chosen != known:
        log.warning(
            "the agent of W&B sweep %s wants this run as %s; the W&B run %s that the folder had before stays as it is",
            sweep_id(),
            chosen,
            known,
        )
    if chosen != known:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(chosen + "\n")
    return chosen


def shorten(text: str, most: int) -> str:
    """At most so many characters; one that is cut ends in 8 hex digits of the whole, so that two stay two."""
    return text if len(text) <= most else f"{text[: most - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def group_name(sweep: str) -> str:
    """W&B's group of a sweep: the name of its folder."""
    return shorten(sweep, 128)
