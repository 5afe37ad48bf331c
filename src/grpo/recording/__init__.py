"""What a run leaves behind: JSONL files (the truth), W&B (the same numbers), a progress bar, and curves."""
