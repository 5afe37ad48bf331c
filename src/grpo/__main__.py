"""`python -m grpo`, and the `grpo` command."""

from __future__ import annotations

import sys

from grpo.cli import main

if __name__ == "__main__":
    sys.exit(main())
