"""For the forkserver of forked.py and nobody else: what it imports, and that it ends at once.

When a sweep is killed its jobs hear of it by the end of the forkserver, and tearing down torch takes seconds. Children
leave without Python's exit functions, so this one is the forkserver's alone.
"""

from __future__ import annotations

import atexit
import os

import grpo.training.run  # noqa: F401

atexit.register(os._exit, 0)
