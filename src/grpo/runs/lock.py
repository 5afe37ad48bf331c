"""One writer per folder: a lock on the folder itself, which leaves no file behind and ends with the process."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def lock(folder: Path) -> int | None:
    """Lock an existing folder; the descriptor that holds the lock until it is closed.

    None where there are no locks (Windows, some file systems). BlockingIOError while somebody else holds it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
