"""`python -m grpo.probe reward=… task=…`: what a reward pays on real prompts, before anything is trained.

    writing.py      a right answer, a wrong one, in another format, in words: as the task's prompts ask for them
    completions.py  the kinds of completions that are tried, and what each must or must not earn
    measure.py      the rewards of these completions, from the Scorer of a run
    golds.py        every right answer of the data set: can it be used, is it paid?
    verdict.py      flags (a reward that pays tricks, never varies, does not pay the right answer) and notes
    show.py         as a table        plain.py   as JSON

Neither the policy nor a GPU is needed; the tokenizer is loaded only where a reward reads token ids.
"""
