"""`python -m grpo.probe`: what it shows, what it flags, and that it stays out of the way otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grpo.probe.__main__ import main
from tests.probe import own

OWN = "tests.probe.own"


def reward(name: str) -> list[str]:
    return ["reward=own", f"reward.functions.own._target_={OWN}.{name}"]


def task(folder: Path, name: str) -> list[str]:
    """A configuration folder with a task of one's own, chosen."""
    (folder / "task").mkdir(exist_ok=True)
    text = f"_target_: {OWN}.{name}\nextract: boxed\nmax_completion_tokens: 32\n"
    (folder / "task" / "mine.yaml").write_text(text)
    return ["--config-dir", str(folder), "task=mine"]


def probed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main([*words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def rows(found: dict[str, Any], question: int = 0) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in found["questions"][question]["completions"]}


def flagged(found: dict[str, Any]) -> list[str]:
    return [flag["about"] for flag in found["flags"]]


def test_exact_on_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, "--questions", "3")
    assert (found["task"], found["reward"], found["functions"]) == ("arithmetic", "exact", {"exact": 1.0})
    assert found["questions"][0]["prompt"] == "16+38="  # the first prompt of a run with seed 0; 16 + 38 = 54
    assert found["questions"][0]["answer"] == "54"
    first = rows(found)
    assert {kind: (row["text"], row["right"]) for kind, row in first.items() if kind != "hidden in a text"} == {
        "right answer": ("\\boxed{54}", True),
        "after thoughts": ("<think>Let me see.</think>\n\\boxed{54}", True),
        "in another format": ("\\boxed{54.0}", True),
        "in words": ("\\boxed{fifty-four}", False),
        "no box": ("The answer is 54.", False),
        "wrong answer": ("\\boxed{55}", False),
        "another's answer": (f"\\boxed{{{found['questions'][1]['answer']}}}", False),
        "several answers": ("\\boxed{53} or \\boxed{54} or \\boxed{55}", False),
        "prompt echoed": ("16+38=", False),
        "empty": ("", False),
    }
    hidden = first["hidden in a text"]
    assert " 54?" in hidden["text"]
    assert hidden["text"].endswith(" 55.")
    assert len(hidden["text"]) > 1000
    assert (hidden["total"], hidden["right"]) == (0.0, False)
    assert found["flags"] == []
    splits = [(g["split"], g["checked"], g["unusable"]) for g in found["golds"]]
    assert splits == [("train", 3329, 0), ("validation", 512, 0), ("test", 1196, 0)]


def test_words_are_lenient_and_an_echo_may_be_lucky(capsys: pytest.CaptureFixture[str]) -> None:
    """ "the smaller number: 9 or 1?" ends in its answer; a box or the last number is read."""
    found = probed(capsys, "task=words", "--golds", "0")
    assert found["questions"][0]["prompt"].startswith("Tell me the smaller number: 9 or 1?")
    assert rows(found)["no box"]["right"]
    assert rows(found)["prompt echoed"]["right"]
    assert found["flags"] == []
    lucky = sum(rows(found, i)["prompt echoed"]["right"] for i in range(16))
    text = f"the echoed prompt happens to be right on {lucky} of 16 questions"
    assert {"about": "prompt echoed", "text": text} in found["notes"]
    assert found["golds"] == []


def test_the_table_fits(capsys: pytest.CaptureFixture[str]) -> None:
    multi = "first question  exact ×1  boxed ×0.5  length ×0.25  total  right"
    for words, columns in (([], "first question  exact  right"), (["task=words", "reward=multi"], multi)):
        assert main([*words, "--questions", "2", "--golds", "5"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 100
        assert not any(line.endswith(" ") for line in lines)
        row = next(line for line in lines if "wrong answer" in line)
        assert row.endswith("0/2")
        header = next(line for line in lines if "first question" in line)
        assert header.split() == columns.split()
        assert lines[-1].strip() == "nothing to flag"
        assert any("all are usable and paid: the first 5 train" in line for line in lines)


def test_a_reward_that_pays_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *reward("generous"), "--golds", "4", code=1)
    kinds = ["no box", "wrong answer", "another's answer", "several answers", "hidden in a text", "prompt echoed"]
    assert flagged(found) == [*kinds, "empty"]
    assert '"16+38=" answered with "\\boxed{55}" earns 1.00' in found["flags"][1]["text"]
    assert main([*reward("generous"), "--questions", "2", "--golds", "4"]) == 1
    text = capsys.readouterr().out
    assert "a wrong answer counts as right on 2 of 2 questions" in " ".join(text.split())
    assert "7 flags" in text
    assert text.count("✗") == 7


def test_a_reward_that_never_varies(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reward=own", "reward.functions.own._target_=tests.helpers.constant", "--golds", "0", "--questions", "2"]
    found = probed(capsys, *words, code=1)
    # 2 questions × 11 kinds
    assert [f["text"] for f in found["flags"]] == [
        "the reward never varies: all 22 completions earn 0.00, nothing can be learned"
    ]


def test_a_reward_that_never_applies(capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *reward("nothing"), "--golds", "0", "--questions", "1", code=1)
    assert flagged(found) == ["reward"]
    assert rows(found)["empty"]["rewards"] == {"own": None}
    assert rows(found)["empty"]["right"] is None


def test_a_mentioned_answer_is_a_trick(capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *reward("mentions"), "--golds", "0", code=1)
    assert flagged(found)[:3] == ["no box", "several answers", "hidden in a text"]
    assert "wrong answer" not in flagged(found)


def test_a_reward_that_does_not_pay_the_right_answer(capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *reward("stingy"), "--questions", "4", code=1)
    # every completion of a box earns 0, as all others do
    assert "never varies" in found["flags"][0]["text"]
    assert found["flags"][1]["about"] == "train"
    assert "3,329 of 3,329 right answers of train are unusable" in found["flags"][1]["text"]
    assert "own does not pay it" in found["flags"][1]["text"]


def test_a_right_answer_that_is_sometimes_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The first question's answer, 54, is even; the odd ones are not paid."""
    found = probed(capsys, *reward("fussy"), "--golds", "0", "--questions", "8", code=1)
    odd = [question for question in found["questions"] if int(question["answer"]) % 2]
    assert 0 < len(odd) < 8
    text = (
        f"the right answer counts as wrong on {len(odd)} of 8 questions: "
        f'"{odd[0]["prompt"]}" answered with "\\boxed{{{odd[0]["answer"]}}}" earns 0.00'
    )
    assert found["flags"] == [{"about": "right answer", "text": text}]


def test_a_trick_may_earn_as_much_without_counting_as_right(capsys: pytest.CaptureFixture[str]) -> None:
    """exact judges but is not paid; silence earns 1, \\boxed{54} 1/11."""
    words = [f"+reward.functions.brief={{_target_: {OWN}.brief, weight: 1.0}}", "reward.functions.exact.weight=0"]
    found = probed(capsys, *words, "--golds", "0", code=1)
    assert "empty" in flagged(found)
    text = next(flag["text"] for flag in found["flags"] if flag["about"] == "empty")
    assert text.startswith("an empty completion earns no less than the right one, 1.00 against 0.09")
    assert any(note["about"] == "empty" and "it pays not to try" in note["text"] for note in found["notes"])


def test_a_function_that_raises_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*reward("fragile")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("reward.functions.own   it raised IndexError: string index out of range on sample")
    assert "completion ''" in err
    assert len(err.splitlines()) == 1


def test_unusable_golds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *task(tmp_path, "Holes"), *reward("Picky"), code=1)
    train, validation, test = found["golds"]
    assert (train["checked"], train["unusable"]) == (12, 2)
    assert (validation["unusable"], test["unusable"]) == (0, 0)
    assert train["problems"] == [
        {"id": "train-3", "answer": None, "reason": "there is none"},
        {"id": "train-7", "answer": "see figure", "reason": "own: not a number"},
    ]
    text = next(flag["text"] for flag in found["flags"] if flag["about"] == "train")
    assert text == (
        '2 of 12 right answers of train are unusable: train-3 has none, "see figure" of train-7 (own: not a number)'
    )
    assert main([*task(tmp_path, "Holes"), *reward("Picky")]) == 1
    assert "usable and paid: 10 of 12 train · 12 of 12 validation" in capsys.readouterr().out


def test_a_task_without_right_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *task(tmp_path, "Open"), *reward("brief"))
    assert list(rows(found)) == ["prompt echoed", "empty"]
    assert [note["about"] for note in found["notes"]] == ["task"]
    assert found["golds"] == []


def test_a_task_writes_its_own_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = probed(capsys, *task(tmp_path, "Tagged"), *reward("even"))
    first = rows(found)
    assert first["right answer"]["text"] == "<answer>4</answer>"
    assert first["right answer"]["right"]
    assert first["wrong answer"]["text"] == "<answer>5</answer>"
    assert not first["wrong answer"]["right"]
    assert "another's answer" not in first  # all are 4
    assert first["a half"] == {
        "kind": "a half",
        "text": "<answer>4.5</answer>",
        "rewards": {"own": 0.0},
        "total": 0.0,
        "right": False,
    }
    assert found["flags"] == []


@pytest.mark.parametrize(
    ("name", "tricks"),
    [
        ("countdown", {"target alone": "{0}", "target and zero": "{0}+0"}),
        ("pairs", {"target alone": "{0}", "difference": "{1}-1", "three numbers": "{0}+0+0"}),
    ],
)
def test_many_right_answers_and_the_tricks_of_their_tasks(
    name: str, tricks: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = probed(capsys, f"task={name}", "--questions", "4", "--golds", "300")
    target = int(found["questions"][0]["prompt"].split("=")[-2])  # of "1,8,6=2=" and "83="
    assert rows(found)["right answer"]["right"]
    for kind, text in tricks.items():
        row = rows(found)[kind]
        assert (row["text"], row["right"]) == (text.format(target, target + 1), False)
    assert all(split["unusable"] == 0 for split in found["golds"])


def test_what_a_function_counts_as_gone_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    """One hidden answer per question is longer than 1,000 characters; 3 questions × 11 kinds."""
    found = probed(capsys, *reward("Slow"), "--questions", "3", "--golds", "0", code=1)
    text = "own counted 3 timeouts in 33 completions, which it pays nothing"
    assert {"about": "own", "text": text} in found["notes"]


def test_chat_tasks_get_messages(capsys: pytest.CaptureFixture[str]) -> None:
    own.seen.clear()
    probed(
        capsys, "task=words", "task.system=Be brief.", *reward("listens"), "--questions", "1", "--golds", "0", code=1
    )
    prompt, completion, columns = own.seen[0]
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert prompt[0]["content"] == "Be brief."
    assert completion == [{"role": "assistant", "content": "\\boxed{1}"}]
    assert columns["answer"][0] == "1"
    assert columns["completion_ids"][0]  # a function that takes whatever comes may read them


def test_token_ids_only_where_they_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The tiny tokenizer has one token per digit; \\boxed{54} is longer than nothing, and nothing is one end token."""
    found = probed(capsys, *reward("counts_ids"), "--golds", "0", "--questions", "1", code=1)
    assert rows(found)["empty"]["total"] == 1.0
    assert rows(found)["prompt echoed"]["total"] == 7.0  # 1 6 + 3 8 = and the end


def test_questions_are_those_of_training(capsys: pytest.CaptureFixture[str]) -> None:
    from grpo.config.check import load
    from grpo.models.load import load_tokenizer
    from grpo.tasks.prompts import PromptBook

    found = probed(capsys, "seed=3", "--questions", "5", "--golds", "0")
    config, _ = load(["seed=3"])
    book = PromptBook(config.task, load_tokenizer(config.model), 3, config.max_prompt_tokens)
    assert [question["id"] for question in found["questions"]] == [prompt.id for prompt in book.train(0, 5)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["taks=words"], "taks   there is no such group; did you mean task?"),
        (["--questions", "0"], "grpo.probe   argument --questions: must be a whole number from 1 on, not 0"),
        (["--question", "3"], "grpo.probe   unrecognized arguments: --question"),
    ],
)
def test_mistakes_are_sentences(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(sentence)
    assert len(err.splitlines()) == 1


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom grpo.probe.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'transformers', 'rich', 'datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--questions N" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_transformers_for_a_reward_that_reads_text() -> None:
    code = (
        "import sys\nfrom grpo.probe.__main__ import main\n"
        "main(['task=words', '--questions', '2', '--golds', '2', '--json'])\n"
        "print('transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
