"""A question written down before it ran, and the runs that answer it.

    question.py   sweeps/<name>.yaml → Question            grid.py      -m arguments → the same Question
    arms.py       Question → jobs, each configuration checked  sameness.py  arms that are the same algorithm
    plan.py       what is about to run                     tune.py      which point of the grid each arm takes
    manifest.py   sweep.json, the file that says what belongs to the sweep
    runner.py     jobs, so many at a time, each a process of its own
"""
