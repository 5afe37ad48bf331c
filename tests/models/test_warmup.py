"""The script that rebuilds the embedded policy: its texts, and that what is shipped is what it makes."""

import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest

from grpo.models.folders import TINY
from grpo.tasks.arithmetic import Arithmetic

SCRIPT = Path(__file__).parents[2] / "experiments" / "warmup" / "build.py"


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("warmup_build", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["warmup_build"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def test_worked_answers_carry(build) -> None:
    # 7+5=12 writes 2 carries 1; 3+0 and the carry make 4
    assert build.worked(37, 5, 42) == r"7+5=12,3+0+1=4 \boxed{42}"
    assert build.worked(0, 0, 0) == r"0+0=0 \boxed{0}"
    assert build.direct(37, 5, 42) == r"\boxed{42}"


def test_the_longest_completion_fits_the_budget(build) -> None:
    # 9+9=18,9+9+1=19 \boxed{198}: 6 + 1 + 8 + 1 + 11 characters, and the EOS
    longest = build.worked(99, 99, 198)
    assert len(longest) + 1 == 28 <= Arithmetic().max_completion_tokens


def test_texts_show_only_train_problems_and_the_stated_shares(build) -> None:
    task, recipe, draw = Arithmetic(), build.Recipe(), random.Random(0)
    train = {frozenset(task.question("train", i).text[:-1].split("+")) for i in range(task.size("train"))}
    rows = [build.sample(task, recipe, draw) for _ in range(4000)]
    right = {True: [], False: []}
    for prompt, completion in rows:
        a, b = prompt[:-1].split("+")
        assert frozenset((a, b)) in train
        worked = not completion.startswith("\\")
        right[worked].append(completion.endswith(f"\\boxed{{{int(a) + int(b)}}}"))
    # shares of 4000 draws: standard error at most sqrt(¼/1000) = 0.016, five of them 0.08
    assert abs(len(right[True]) / 4000 - recipe.worked) < 0.08
    assert abs(sum(right[True]) / len(right[True]) - (1 - recipe.wrong_worked)) < 0.08
    assert abs(sum(right[False]) / len(right[False]) - (1 - recipe.wrong_direct)) < 0.08


def test_the_shipped_policy_was_made_with_the_recipe_of_the_script(build) -> None:
    assert json.loads((TINY / "recipe.json").read_text()) == {"seed": 0, **vars(build.Recipe())}


def test_build_writes_a_policy_and_repeats_itself(build, tmp_path: Path) -> None:
    small = build.Recipe(steps=2, batch=4)
    for name in ("one", "same"):
        build.build(3, tmp_path / name, small)
    build.build(4, tmp_path / "other", small)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other")]
    assert weights[0] == weights[1] != weights[2]
