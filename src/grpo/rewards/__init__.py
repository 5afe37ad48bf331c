"""What a completion is paid.

A reward is a callable of the ecosystem's interface, so functions written for TRL work here:

    f(prompts, completions, **columns) -> list[float | None]        None = does not apply to this sample

prompts and completions are strings for plain tasks and message lists for chat tasks; columns are the data set's other
columns by name, lists of the same length ("answer" is the right answer).

    extract.py  where the answer stands in a completion, and numbers compared exactly
    exact.py    1 for the right answer, 0 otherwise
    math.py     1 for the right mathematical answer: math_extract -> math_shape -> math_plain -> math_worker (sympy)
    workers.py  functions in processes that can be killed (worker_process.py is their side)
    scoring.py  Scorer: calls every function, checks what it returns, makes Scores

    format.py   a box, <think>…</think>          graded.py    share of right digits, −|error|
    length.py   within a limit, cosine-scaled    distort.py   bent on purpose: cube, exp, heavy tails
    repetition.py  n-grams said twice            code.py      programs that pass their tests (workers.py)
    model.py    a reward model                   typicality.py  log π_ref of the answer
    many.py     countdown and pairs, whose questions have many right answers (expression.py reads them)
    reasoning_gym.py  the scorers of reasoning-gym
    wrapped.py  a reward of a reward             networks.py  what model and typicality share

Soft overlong punishment (shaping=...) and the entropy bonus (entropy=...) are axes of the algorithm.

Your own: reward.functions.<name>={_target_: my_module.my_function, weight: 0.5, <numbers>}; a class of `_target_` is
instantiated, a function gets its numbers as keywords. Nothing heavy is imported here.
"""
