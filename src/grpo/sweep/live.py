"""stub"""

from __future__ import annotations


class Display:
    def __init__(self, say):
        self.say = say

    def update(self, board, at_once, last=False):
        pass

    def finished(self, entry, board):
        n = len(board) - len(board.of("waiting", "running"))
        self.say(f"{n}/{len(board)} {entry.state} {entry.job.folder} {entry.outcome.why}")

    def close(self):
        pass


def display(say, live):
    return Display(say)
