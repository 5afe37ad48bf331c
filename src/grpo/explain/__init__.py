"""What an algorithm does with one batch of numbers: `python -m grpo.explain +algo=dapo batch=figure_7_1`.

    batch.py        JSON → checked numbers                  account.py   objective + numbers → all it does with them
    explained.py    an algorithm with its page and account  compare.py   are two gradients proportional?
    show.py         text, with table.py's row per token     plain.py     JSON
    __main__.py     the command line

To ship another batch: one file in batches/.
"""
