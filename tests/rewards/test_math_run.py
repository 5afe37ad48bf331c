"""Whole runs with `reward=math` on the tiny policy."""

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers import SMALL, lines, newest

OVERRIDES = [word for word in SMALL if "own" not in word]


def test_it_trains_and_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpo", *OVERRIDES, "reward=math", "max_steps=2", f"output_dir={tmp_path}"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = lines(newest(tmp_path) / "metrics.jsonl")
    rewards = [row["rewards/math/mean"] for row in rows if "rewards/math/mean" in row]
    assert len(rewards) == 2
    assert all(0 <= reward <= 1 for reward in rewards)
    # Counts of the step: a completion without a closed box has no answer.
    assert any("rewards/math/no_answer" in row for row in rows)
