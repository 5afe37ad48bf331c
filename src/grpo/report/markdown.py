"""report.md: the same answer for a pull request or a notebook, with the figures beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grpo.report import table
from grpo.report.details import paragraph
from grpo.report.figures import Drawn
from grpo.report.findings import Findings
from grpo.report.formats import interval, percent, probability, seconds, share, signed, tokens
from grpo.report.headline import headline, sentences, subtitle, variance_sentence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def escape(text: object) -> str:
    """Text as Markdown shows it; one line, because a table's row is one."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def text(found: Findings, drawn: Mapping[str, Drawn]) -> str:
    """The whole file."""
    sweep = found.sweep
    lines = [f"# {escape(sweep.claim or sweep.title)}", "", escape(subtitle(found)), ""]
    lines += [f"**{escape(headline(found))}**", ""]
    lines += [f"- {escape(sentence)}" for _, sentence in sentences(found)]
    lines += ["", *_notes(found)]
    if "forest" in drawn:
        lines += [_picture(drawn["forest"]), ""]
    lines += ["## Arms", "", *_arms(found), "", *_differences(found), "## Every seed", "", *_seeds(found), ""]
    for name, figure in drawn.items():
        if name != "forest":
            lines += [f"## {escape(figure.title)}", "", _picture(figure), ""]
    lines += ["## Variance", "", escape(variance_sentence(found)), ""]
    if found.settings:
        lines += ["## What differs between the arms", "", *_settings(found), ""]
    if found.conditions:
        lines += ["## What differs outside of the settings", "", *_conditions(found), ""]
    lines += ["## Experimental details", "", escape(paragraph(found)), ""]
    return "\n".join(lines)


def _picture(figure: Drawn) -> str:
    return f"![{escape(figure.alt)}](figures/{figure.name}.png)"


def grid(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table, first column left, the others right."""
    lines = [f"| {' | '.join(escape(head) for head in heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    return lines + [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]


def _arms(found: Findings) -> list[str]:
    names = table.metric_names(found.sweep)
    heads = ["arm", found.sweep.endpoint, "sd", "greedy", names["passes"], names["majority"], "length", "tokens",
             "time", "dead groups", "cut", "health", "tuned"]  # fmt: skip
    rows = [
        [row.arm, share(row.mean), share(row.sd), share(row.greedy), share(row.passes), share(row.majority),
         share(row.length, 1), tokens(row.tokens), seconds(row.seconds), percent(row.dead), percent(row.cut, 1),
         row.failures.words, row.tuned]
        for row in table.rows(found)
    ]  # fmt: skip
    return grid(heads, rows)


def _differences(found: Findings) -> list[str]:
    contrasts = found.comparison.arms
    if not contrasts:
        return []
    heads = ["arm", f"difference to {found.sweep.baseline}", "simultaneous interval", "p (Holm)", "p (sign flip)",
             "correlation", "blocks", "verdict"]  # fmt: skip
    rows = [
        [c.arm, signed(c.mean), interval(c.low, c.high), probability(c.p_holm), probability(c.p_sign),
         share(c.correlation, 2), len(c.differences), c.verdict]
        for c in contrasts
    ]  # fmt: skip
    return ["## Differences", "", *grid(heads, rows), ""]


def _seeds(found: Findings) -> list[str]:
    every = list(dict.fromkeys(seed.seed for row in table.rows(found) for seed in row.seeds))
    rows = []
    for row in table.rows(found):
        by_seed = {seed.seed: seed for seed in row.seeds}
        cells = [by_seed.get(seed) for seed in every]
        rows.append([row.arm, *(_cell(cell) for cell in cells)])
    return grid(["arm", *(f"seed {seed}" for seed in every)], rows)


def _cell(seed: table.Seed | None) -> str:
    if seed is None:
        return "–"
    return seed.state if seed.score is None else share(seed.score) + (" †" if seed.state == "diverged" else "")


def _settings(found: Findings) -> list[str]:
    arms = list(found.settings[0].values)
    return grid(["key", *arms], [[row.key, *(row.values[arm] for arm in arms)] for row in found.settings])


def _conditions(found: Findings) -> list[str]:
    rows = [[each.what, value, len(runs)] for each in found.conditions for value, runs in each.runs.items()]
    return grid(["what", "value", "runs"], rows)


def _notes(found: Findings) -> list[str]:
    return [*(f"> {escape(note)}\n" for note in found.notes), ""] if found.notes else []
