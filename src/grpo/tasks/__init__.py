"""Questions with checkable answers, in three disjoint splits.

    base.py        Question, Task (what a task must offer), the split of a problem
    order.py       hashes and permutations: order as a pure function of (seed, position)
    arithmetic.py  37+5=                                words.py   English word problems for chat models
    countdown.py   make a target from numbers           pairs.py   two numbers whose sum is N: many right answers
    reasoning_gym.py  any data set of reasoning-gym
    dataset.py     files, folders and the hub: rows.py splits them, tables.py opens them
    prompts.py     PromptBook: task + tokenizer + seed -> Prompts, chat-templated or plain, never cut
    survey.py      every prompt looked at once before training: too long? unknown characters?

A new task is one frozen pydantic dataclass with the members of `base.Task`, and one YAML in conf/task.
Nothing heavy is imported here: the configuration check reads these modules.
"""
