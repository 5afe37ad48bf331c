"""Questions with checkable answers, in three disjoint splits.

    base.py        Question, Task (what a task must offer), the split of a problem
    order.py       hashes and permutations: order as a pure function of (seed, position)
    arithmetic.py  37+5=                                words.py   English word problems for chat models
    prompts.py     PromptBook: task + tokenizer + seed -> Prompts, chat-templated or plain, never cut

A new task is one frozen pydantic dataclass with the members of `base.Task`, and one YAML in conf/task.
Nothing heavy is imported here: the configuration check reads these modules.
"""
