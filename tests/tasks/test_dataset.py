"""Your own data: every format, columns by name, disjoint splits, nothing cut, rows that stay on the disk."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests import helpers

from grpo.config.check import load as load_config
from grpo.errors import UserError
from grpo.models.architecture import make_tokenizer
from grpo.tasks.base import SPLITS, questions
from grpo.tasks.dataset import Dataset
from grpo.tasks.prompts import PromptBook
from grpo.tasks.rows import _carved, load

ROWS = [{"prompt": f"{a}+{b}=", "answer": str(a + b), "level": a % 3} for a in range(1, 13) for b in range(a, 13)]
"""78 questions."""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(path: Path | str, **fields: Any) -> Dataset:
    return Dataset(path=str(path), cache_dir="cache", **fields)


def jsonl(name: str, rows: list[dict[str, Any]]) -> Path:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Path(name)


def all_of(task: Dataset) -> list[Any]:
    return [q for split in SPLITS for q in questions(task, split, 0, task.size(split))]


def write(name: str) -> str:
    """ROWS in a file of that format; the path that the task is given."""
    import datasets

    table = datasets.Dataset.from_list(ROWS)
    if name.endswith(".parquet"):
        table.to_parquet(name)
    elif name.endswith((".csv", ".tsv")):
        with open(name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), delimiter="\t" if name.endswith(".tsv") else ",")
            writer.writeheader()
            writer.writerows(ROWS)
    elif name == "list.json":
        Path(name).write_text(json.dumps(ROWS), encoding="utf-8")
    elif name.endswith(".gz"):
        with gzip.open(name, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in ROWS)
    elif name == "part-*.jsonl":
        jsonl("part-0.jsonl", ROWS[:30])
        jsonl("part-1.jsonl", ROWS[30:])
    elif name == "saved":
        table.save_to_disk(name)
    else:
        jsonl(name, ROWS)
    return name


@pytest.mark.parametrize(
    "name",
    ["a.jsonl", "a.parquet", "a.csv", "a.tsv", "list.json", "a.jsonl.gz", "part-*.jsonl", "saved"],
)
def test_every_format_gives_the_same_questions(name: str) -> None:
    task = made(write(name))
    found = {q.text: q for q in all_of(task)}
    assert sorted(found) == sorted(row["prompt"] for row in ROWS)
    for row in ROWS:  # a CSV has no types: 6 comes back as a number, and the answer is text again
        assert found[row["prompt"]].columns == {"answer": row["answer"], "level": row["level"]}
    assert all(task.size(split) for split in SPLITS)
    assert task.notes() == ["validation and test taken out of train by hash of the prompt"]


def test_splits_are_disjoint_and_a_function_of_the_question() -> None:
    doubled = made(jsonl("doubled.jsonl", [*ROWS, *({**row, "prompt": f" {row['prompt']} "} for row in ROWS[:20])]))
    once = made(jsonl("once.jsonl", ROWS[::-1]))
    where = {q.text.strip(): split for split in SPLITS for q in questions(once, split, 0, once.size(split))}
    again = {split: [q.text.strip() for q in questions(doubled, split, 0, doubled.size(split))] for split in SPLITS}
    assert sum(map(len, again.values())) == 98
    # spaces make no other question, other rows and another order no other split
    assert all(where[text] == split for split, texts in again.items() for text in texts)
    sizes = [once.size(split) for split in SPLITS]
    # binomial: 78 · 0.1 = 7.8 ± 5 · 2.6 for the test, 78 · 0.05 = 3.9 ± 5 · 1.9 for validation
    assert 1 <= sizes[1] <= 13
    assert 1 <= sizes[2] <= 20


def test_few_rows_still_have_three_splits() -> None:
    for count in (3, 4, 6):
        task = made(jsonl(f"{count}.jsonl", ROWS[:count]))
        assert sorted(len(questions(task, s, 0, task.size(s))) for s in SPLITS)[0] == 1
        assert len({q.text for q in all_of(task)}) == count
    with pytest.raises(UserError, match=r"^task\.\w+   two\.jsonl leaves no question for \w+; name a split or a file"):
        made(jsonl("two.jsonl", ROWS[:2])).size("train")


def test_a_carved_share_is_of_the_hash() -> None:
    import numpy as np

    marks = np.arange(1, 101, dtype=np.uint64) * np.uint64(2**64 // 101)  # evenly over [0, 2⁶⁴)
    parts = _carved(np.arange(100), marks, {"test": 0.1, "validation": 0.2})
    # k/101 < 0.1 for k ≤ 10, then k/101 < 0.3 for k ≤ 30
    assert [len(parts[split]) for split in ("test", "validation", "train")] == [10, 20, 70]
    assert sorted(n for rows in parts.values() for n in rows.tolist()) == list(range(100))


def test_named_splits_of_a_folder_and_a_file_for_the_test() -> None:
    Path("folder").mkdir()
    jsonl("folder/train.jsonl", ROWS[:50])
    jsonl("folder/test.jsonl", ROWS[50:])
    task = made("folder", test="test")
    assert {q.text for q in questions(task, "test", 0, 99)} == {row["prompt"] for row in ROWS[50:]}
    assert task.notes() == ["validation taken out of train by hash of the prompt"]
    other = made("folder", test=str(jsonl("mine.jsonl", ROWS[70:])))
    assert other.size("test") == 8
    with pytest.raises(UserError, match=r"^task\.test   there is no split tset in folder; it has train, test; did you"):
        made("folder", test="tset").size("train")
    with pytest.raises(UserError, match=r"^task\.test   one\.jsonl is a file, so test must be a file too, or null"):
        made(jsonl("one.jsonl", ROWS), test="test").size("train")


def test_questions_in_two_splits_are_refused_or_dropped_and_counted() -> None:
    train, test = (
        jsonl("train.jsonl", ROWS[:40]),
        jsonl("test.jsonl", [{**ROWS[39], "prompt": " 4+10=\n"}, *ROWS[40:60]]),
    )
    assert ROWS[39]["prompt"] == "4+10="
    with pytest.raises(UserError) as refusal:
        made(train, test=str(test)).size("train")
    assert str(refusal.value) == (
        "task.overlap   1 questions of train stand in test too (the first is row 39), and scores on test would be too "
        "good; say task.overlap=drop to take them out of train"
    )
    task = made(train, test=str(test), overlap="drop")
    assert task.size("test") == 21
    assert "4+10=" not in {q.text for s in ("train", "validation") for q in questions(task, s, 0, task.size(s))}
    assert "1 questions of train that stand in test too dropped" in task.notes()


def test_a_wrong_column_lists_those_found() -> None:
    path = jsonl("a.jsonl", ROWS)
    with pytest.raises(UserError) as refusal:
        made(path, prompt_column="promt").size("train")
    text = (
        "task.prompt_column   there is no column promt in a.jsonl; it has prompt, answer, level; did you mean prompt?"
    )
    assert str(refusal.value) == text
    with pytest.raises(
        UserError, match=r"^task\.answer_column   there is no column gold in a\.jsonl; it has prompt, a"
    ):
        made(path, answer_column="gold").size("train")


def test_what_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"^task\.path   there is no file nowhere\.jsonl"):
        made("nowhere.jsonl").size("train")
    Path("broken.jsonl").write_text('{"prompt": "1+1="\n')
    with pytest.raises(UserError, match=r"^task\.path   the datasets library cannot read broken\.jsonl: "):
        made("broken.jsonl").size("train")
    with pytest.raises(UserError, match=r"^task\.path   the datasets library cannot read org/name: "):
        made("org/name").size("train")


def test_gsm8ks_answers_and_everything_else_by_name() -> None:
    rows = [
        {"question": f"q{i}", "answer": f"{i} #### no, that is\n#### 1,{i:03}", "unit": None, "tags": ["a", "b"]}
        for i in range(9)
    ]
    task = made(jsonl("gsm.jsonl", rows), prompt_column="question", answer_pattern=r"####\s*(.+)")
    columns = {q.text: q.columns for q in all_of(task)}
    # the last match of the pattern; the whole solution is not lost
    assert columns["q7"] == {
        "answer": "1,007",
        "answer_raw": "7 #### no, that is\n#### 1,007",
        "unit": None,
        "tags": ["a", "b"],
    }
    bare = made("gsm.jsonl", prompt_column="question", answer_column=None)
    assert {q.text: q.columns for q in all_of(bare)}["q7"]["answer"] == "7 #### no, that is\n#### 1,007"


def test_rows_without_prompt_or_answer_are_refused_or_dropped_and_counted() -> None:
    bad = [{"prompt": "", "answer": "1"}, {"prompt": "x", "answer": None}, {"prompt": None, "answer": "2"}]
    path = jsonl("bad.jsonl", [*ROWS[:20], *({**row, "level": 0} for row in bad)])
    with pytest.raises(UserError) as refusal:
        made(path).size("train")
    assert str(refusal.value) == (
        "task.bad_rows   3 of 23 rows of train cannot be used (row 20 has no prompt); mend the data, or say "
        "task.bad_rows=drop"
    )
    task = made(path, bad_rows="drop")
    assert len(all_of(task)) == 20
    assert "3 rows of train without a prompt or an answer dropped" in task.notes()
    with pytest.raises(UserError, match=r"78 of 78 rows of train .* \(row 0 has no answer that matches ####\)"):
        made(jsonl("a.jsonl", ROWS), answer_pattern="####").size("train")


def test_long_prompts_are_refused_or_dropped_and_the_order_stays_whole() -> None:
    rows = [{**row, "prompt": row["prompt"] * (9 if i % 4 == 0 else 1)} for i, row in enumerate(ROWS)]
    path = jsonl("long.jsonl", rows)
    with pytest.raises(UserError) as refusal:
        PromptBook(made(path), make_tokenizer(), 0, 20)
    assert str(refusal.value).startswith("max_prompt_tokens   ")
    assert str(refusal.value).endswith(", or task.too_long=drop")
    book = PromptBook(made(path, too_long="drop"), make_tokenizer(), 0, 20)
    short = {row["prompt"] for i, row in enumerate(rows) if i % 4}
    kept = [p.text for split in SPLITS for p in book.split(split, 99)]
    assert sorted(kept) == sorted(short)  # none cut, none lost, none twice
    size = book.size("train")
    assert {p.text for p in book.train(0, size)} == {p.text for p in book.split("train", 99)}
    dropped = sum(made(path).size(s) - book.size(s) for s in SPLITS)
    assert dropped == 20  # 78 rows: 0, 4, …, 76
    said = [int(note.split()[0]) for note in book.notes() if "over 20 tokens dropped" in note]
    assert sum(said) == 20
    with pytest.raises(UserError, match=r"^max_prompt_tokens   all \d+ train prompts are longer than 4 tokens"):
        PromptBook(made(path, too_long="drop"), make_tokenizer(), 0, 4)


def test_rows_stay_on_the_disk_and_the_cache_is_where_it_was_told() -> None:
    task = made(jsonl("a.jsonl", ROWS))
    _, table = load(task).sources["train"]
    files = [Path(file["filename"]).resolve() for file in table.cache_files]
    assert files
    assert all(Path("cache").resolve() in file.parents for file in files)
    assert type(table.data).__name__ in ("MemoryMappedTable", "ConcatenationTable")
    assert all(
        type(block).__name__ == "MemoryMappedTable" for row in getattr(table.data, "blocks", []) for block in row
    )


def test_few_shot_and_template(tmp_path: Path) -> None:
    (tmp_path / "shots.txt").write_text("1+1=\\boxed{2}\n", encoding="utf-8")
    task = made(jsonl("a.jsonl", ROWS), few_shot="@shots.txt", template="Q: {prompt} in \\boxed{}")
    assert all_of(task)[0].text.startswith("1+1=\\boxed{2}\n\nQ: ")
    assert all_of(task)[0].text.endswith("= in \\boxed{}")
    with pytest.raises(UserError, match=r"^task\.few_shot   there is no file none\.txt"):
        all_of(made("a.jsonl", few_shot="@none.txt"))


def test_the_order_is_a_function_of_the_seed_alone() -> None:
    path = jsonl("a.jsonl", ROWS)
    books = [PromptBook(made(path), make_tokenizer(), seed, 512) for seed in (0, 0, 1)]
    orders = [[p.id for step in range(6) for p in book.train(step, 10)] for book in books]
    assert orders[0] == orders[1] != orders[2]
    # resume counts prompts: step 5 of 10 prompts begins where ten steps of 5 end
    assert [p.id for p in books[0].train(5, 10)] == [p.id for step in (10, 11) for p in books[1].train(step, 5)]


def test_five_steps_end_to_end_and_resume_equals_an_uninterrupted_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = jsonl(str(tmp_path / "a.jsonl"), ROWS)
    said = ["task=dataset", f"task.path={path}", f"task.cache_dir={tmp_path / 'cache'}", "max_steps=5"]
    code, straight = helpers.run(tmp_path / "straight", *said)
    assert code == 0
    monkeypatch.setenv("STOP_AT", "4")  # the untrained evaluation scores twice: within step 2
    assert helpers.run(tmp_path / "stopped", *said)[0] == 143
    monkeypatch.delenv("STOP_AT")
    code, resumed = helpers.run(tmp_path / "stopped", *said, "resume=auto")
    assert code == 0
    for name in ("metrics", "samples", "evaluations"):  # the questions of every step, and every number
        whole, parts = (
            [helpers.without_clock(row) for row in helpers.lines(folder / f"{name}.jsonl")]
            for folder in (straight, resumed)
        )
        assert whole == parts
    columns = {row["prompt_id"] for row in helpers.lines(straight / "samples.jsonl")}
    assert all(name.startswith("train:") for name in columns)


def test_the_presets_only_name_columns() -> None:
    for folder, rows in {
        "gsm8k": [{"question": f"How much is {i}+1?", "answer": f"It is {i}.\n#### {i + 1}"} for i in range(30)],
        "math": [{"problem": f"Find ${i}+1$.", "solution": "s", "answer": f"{i + 1}", "level": 1} for i in range(30)],
    }.items():
        Path(folder).mkdir()
        jsonl(f"{folder}/train.jsonl", rows[:20])
        jsonl(f"{folder}/test.jsonl", rows[19:])  # one question too many, dropped from train and counted
        words = [f"task={folder}", f"task.path={folder}", "task.subset=null", "task.cache_dir=cache"]
        config, resolved = load_config(words)
        assert set(resolved["task"]) <= {"_target_", *Dataset.__dataclass_fields__}
        task = config.task
        assert task.size("test") == 11
        assert len(all_of(task)) == 30
        assert {q.columns["answer"] for q in all_of(task)} == {str(i + 1) for i in range(30)}
        assert "1 questions of train that stand in test too dropped" in task.notes()
        text = PromptBook(task, make_tokenizer(), 0, 512).split("test", 1)[0].text
        assert text.startswith("<bos>user: ")
        assert "\\boxed{}" in text
