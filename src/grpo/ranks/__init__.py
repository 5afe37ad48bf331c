"""Several devices: W processes ("ranks") that make the very same run as one process would.

place.py    which rank this process is, and how many a configuration wants; no heavy import
launch.py   starts the ranks, passes signals on, and ends them all when one dies
ranks.py    what the ranks say to each other; a world of one says nothing

Completions are sampled in shares and gathered (rollout/shared.py), rewards are computed once, by rank 0
(rewards/shared.py), and forward and backward passes are made in shares (training/updater.py). Everything in between is
computed by every rank from the same numbers, so that each decides the same. Only rank 0 writes.
"""
