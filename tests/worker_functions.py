"""What the tests let killable workers do. Imported in the workers: nothing heavy here."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

seen = 0


def double(number: int) -> int:
    return 2 * number


def act(task: tuple[str, Any]) -> Any:
    """What `task` names, good or bad."""
    global seen
    seen += 1
    what, value = task
    match what:
        case "sleep":
            time.sleep(value)
        case "power":  # one C call that no signal handler interrupts
            return len(str(7 ** (7**value)))
        case "memory":
            return len(bytearray(value << 20))
        case "exit":
            os._exit(value)
        case "sys.exit":
            sys.exit(value)
        case "segfault":
            ctypes.string_at(0)
        case "raise":
            raise ValueError(value)
        case "print":
            print(value, flush=True)
            os.write(1, b"more\n")
        case "object":
            return object()
        case "pid":
            return os.getpid()
        case "child":  # leaves a process of its own running, and says which
            pid = subprocess.Popen(["sleep", "600"]).pid
            Path(value).write_text(f"{os.getpid()} {pid}")
            time.sleep(600)
        case "seen":
            return seen
        case "environment":
            return dict(os.environ)
        case "modules":
            return [name for name in value if name in sys.modules]
    return value
