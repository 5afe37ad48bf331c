"""A question written down before it ran, and the runs that answer it.

- the question     question, rules, words, asked, files: sweeps/<name>.yaml and the command line; grid: the same from -m
- before it runs   arms: jobs, each configuration checked; sameness, synthetic: arms that are one algorithm; plan
- the runs         manifest, layout: what belongs to the sweep, and where; drive: its life; tune, stages: its choices
- the jobs         runner, launch: so many at a time; forked, preload, process, slurm: how one starts; settle, cache:
  which need not run; cores: what each gets; live, picture, board, facts: what one sees; outcomes: what failed and why
"""
