"""Sweeps that lack something: every file is written, says why, and holds no nan."""

from __future__ import annotations

import re

import pytest

from grpo.report import figures, latex, markdown, page, show, summary
from grpo.report.findings import findings
from grpo.report.reading import load
from tests.report.synthetic import Run, Sweep

SIX = {seed: 0.5 + seed / 64 for seed in range(6)}
BARE = {"git": None, "cpu": {}, "packages": {}, "python": None}
NULLS = dict.fromkeys(("reward", "policy/entropy", "grad_norm", "tokens/generated", "time/elapsed"))


def _metrics_missing() -> dict[int, Run]:
    return {seed: Run(score, metrics=dict(NULLS), config={"optimizer": None}) for seed, score in SIX.items()}


SWEEPS = {
    "one_arm": lambda s: s.arm("a", SIX),
    "one_run": lambda s: s.arm("a", {0: 0.5}),
    "one_seed": lambda s: s.arm("a", {0: 0.5}).arm("b", {0: 0.6}, "x=1"),
    "nothing_begun": lambda s: s.arm("a", {0: Run(None, written=False)}).arm("b", {0: Run(None, written=False)}, "x=1"),
    "all_running": lambda s: s.arm("a", {0: Run(0.5, state="running", steps=1)}).arm(
        "b", {0: Run(0.5, state="running", steps=0)}, "x=1"
    ),
    "all_diverged": lambda s: s.arm("a", SIX).arm(
        "b", {seed: Run(0.1, state="failed", kind="diverged", steps=5) for seed in SIX}, "x=1"
    ),
    "diverged_before_a_validation": lambda s: s.arm("a", SIX).arm(
        "b", {**SIX, 0: Run(0.1, state="failed", kind="diverged", steps=1)}, "x=1"
    ),
    "no_spread": lambda s: s.arm("a", dict.fromkeys(range(6), 0.5)).arm("b", dict.fromkeys(range(6), 0.5), "x=1"),
    "always_right": lambda s: s.arm("a", dict.fromkeys(range(6), 1.0)).arm("b", SIX, "x=1"),
    "no_test": lambda s: s.arm("a", {i: Run(v, test=False) for i, v in SIX.items()}).arm(
        "b", {i: Run(v, test=False) for i, v in SIX.items()}, "x=1"
    ),
    "nulls": lambda s: s.arm("a", _metrics_missing()).arm("b", SIX, "x=1"),
    "unknown_machine": lambda s: s.arm("a", {0: Run(0.5, environment=BARE), 1: 0.5}),
    "no_baseline": lambda s: s.arm("a", SIX).arm("b", SIX, "x=1"),
    "fifteen_arms": lambda s: [s.arm(f"arm/{i}", SIX, f"x={i}") for i in range(15)][-1],
}
QUESTIONS = {"no_baseline": {"baseline": None, "margin": None, "at": None, "claim": None}}


@pytest.mark.parametrize("name", SWEEPS)
def test_every_text(tmp_path, name):
    sweep = SWEEPS[name](Sweep(tmp_path, question=QUESTIONS.get(name, {})))
    found = findings(load(sweep.write()))
    texts = [page.text(found, {}, tmp_path), markdown.text(found, {}), latex.text(found), summary.text(found.sweep)]
    for text in [*texts, "\n".join(show.lines(found))]:
        text = re.sub(r"<style>.*</style>|<script>.*</script>", "", text, flags=re.DOTALL)
        assert not re.search(r"\b(nan|inf|None)\b", text)


@pytest.mark.parametrize("name", ["one_run", "nothing_begun", "all_running", "no_spread", "nulls", "fifteen_arms"])
def test_every_figure_can_be_laid_out(tmp_path, name):
    from matplotlib import rc_context

    from grpo.report.figures_style import RC

    sweep = SWEEPS[name](Sweep(tmp_path, question=QUESTIONS.get(name, {})))
    found = findings(load(sweep.write()))
    with rc_context(RC):
        drawn = {plan.name: plan.draw() for plan in figures.plan(found)}
    assert all(figure is not None and figure.axes for figure in drawn.values())
    started = name not in ("nothing_begun", "all_running")
    assert ("curves_tokens" in drawn) == (started or name == "all_running")


def test_a_reason_stands_where_there_is_no_number(tmp_path):
    found = findings(load(SWEEPS["one_arm"](Sweep(tmp_path)).write()))
    text = page.text(found, {}, tmp_path)
    # 0.5 + 2.5/64 = .5391; the sd of 0…5 is √3.5 = 1.871, of 64 .0292
    assert "a: test/avg@8 0.539 over 6 seeds, sd 0.029. One arm only: nothing to compare it with." in text
    assert "nothing was tuned" in text
    assert "–: one arm only." in text


def test_samples_without_a_shared_step(tmp_path):
    sweep = Sweep(tmp_path).arm("a", {0: 0.5}).arm("b", {0: Run(0.5, steps=9)}, "x=1")
    text = page.text(findings(load(sweep.write())), {}, tmp_path)
    assert "Seed 0, step 20" in text
    assert "did not log this prompt" in text
