"""report.html: one file, nothing fetched from anywhere. Everything that comes from a record is escaped by Jinja."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from grpo.config.sentences import counted
from grpo.report import page_tables, table
from grpo.report.contrast import Contrast
from grpo.report.details import commands, paragraph
from grpo.report.figures import Drawn, silent
from grpo.report.figures_curves import AXES, references, validation_metric
from grpo.report.figures_style import MANY, looks
from grpo.report.findings import COLLAPSED, Findings
from grpo.report.formats import listed, number, percent, share
from grpo.report.headline import headline, subtitle, variance_sentence
from grpo.report.panels import SECTIONS
from grpo.report.samples import SideBySide, side_by_side

if TYPE_CHECKING:
    from jinja2 import Template

CONTENTS = (
    ("answer", "Answer"), ("arms", "Arms"), ("tuning", "Tuning"), ("curves", "Curves"), ("diagnostics", "Diagnostics"),
    ("variance", "Variance"), ("settings", "What differs"), ("samples", "Samples"), ("again", "Make it again"),
    ("details", "Experimental details"),
)  # fmt: skip


def text(found: Findings, drawn: Mapping[str, Drawn], folder: Path) -> str:
    """The whole page; `folder` is where it will lie."""
    sweep, styles, rows = found.sweep, looks(found.sweep), table.rows(found)
    whole, per_figure, per_run = commands(found, list(drawn), folder)
    return _template().render(
        css=Markup(_file("report.css")),
        js=Markup(_file("report.js")),
        title=sweep.title,
        contents=CONTENTS,
        looks=styles,
        figures=drawn,
        baseline=sweep.baseline,
        **_answer(found),
        arms_table=page_tables.arms(found, rows, styles),
        arms_note=_arms_note(found),
        seeds_table=page_tables.seeds(found, rows),
        differences_table=page_tables.differences(found),
        failures_table=page_tables.failures(found),
        failures_note=_FAILURES,
        no_failure=_no_failure(found),
        algorithms_table=page_tables.algorithms(found, rows),
        tuning_why="–: nothing was tuned; every arm runs with the settings it came with.",
        **_curves(found, drawn),
        variance=variance_sentence(found),
        correlations=_correlations(found),
        **_differing(found),
        samples=_samples(side_by_side(sweep)),
        whole=whole,
        per_figure=per_figure,
        per_run=per_run,
        details=paragraph(found),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False).from_string(
        _file("report.html.j2")
    )


def _file(name: str) -> str:
    return (files("grpo.report") / "templates" / name).read_text(encoding="utf-8")


_FAILURES = (
    "A run that diverged ended by itself in numbers that were not finite; one that collapsed finished below "
    f"{percent(COLLAPSED)} of the untrained policy. Both count in every number above with their last "
    "score. The tests are against the baseline, exact and exploratory."
)


def _no_failure(found: Findings) -> str:
    """A sentence instead of a table of zeros."""
    results = sum(each.counted for each in found.failures.values())
    failed = sum(each.failed for each in found.failures.values())
    if failed or not results:
        return ""
    return f"All {counted(results, 'finished run')} are healthy: none diverged, none collapsed."


def _answer(found: Findings) -> dict[str, Any]:
    sweep = found.sweep
    contrasts = found.comparison.arms
    answers = [
        {"arm": c.arm, "numbers": c.numbers, "words": _words(c), "verdict": c.verdict,
         "cls": c.verdict.replace(" ", "-"), "health": found.failures[c.arm].words}
        for c in contrasts
    ]  # fmt: skip
    return {
        "headline": headline(found),
        "subtitle": subtitle(found),
        "claim": sweep.claim,
        "source": sweep.source,
        "answers": answers,
        "forest_caption": _forest_caption(found),
        "no_forest": "No block has both an arm and the baseline yet: no difference to draw." if contrasts else "",
        "acted": found.acted.sentence(sweep.baseline) if found.acted else "",
        "notes": found.notes,
        "dense": len(contrasts) > MANY,
        "missing": found.missing,
        "command": shlex.join(sweep.command),
    }


def _words(contrast: Contrast) -> str:
    """What the badge beside it does not say already."""
    words = "" if contrast.verdict in ("exploratory", "interim") else contrast.words
    words = re.sub(rf"^{contrast.verdict} ?(?:\((.*?)\))?", r"\1", words).strip(" :;")
    return "; ".join([word for word in (words, *contrast.notes) if word])


def _forest_caption(found: Findings) -> str:
    contrasts = found.comparison.arms
    if not contrasts:
        return ""
    level = f"{100 * (1 - found.comparison.alpha):g} %"
    every = f" for all {len(contrasts)} comparisons at once (Bonferroni)" if len(contrasts) > 1 else ""
    band = f"; grey: differences below the margin of {found.comparison.margin:g}" if found.comparison.margin else ""
    return (
        f"Each dot is the difference in one block, the diamond their mean, the bar the {level} interval{every}{band}."
    )


def _arms_note(found: Findings) -> str:
    dagger = any(r.counted and r.score_from != found.sweep.endpoint for r in found.sweep.runs)
    return (
        "Means over results; sd over seeds; dots are seeds, the tick their mean. Dead groups: mean over the run; "
        "length and cut answers: of the final evaluation. Steps and seconds are shown, never "
        "judged. Click a head to sort." + (" †: the last validation, because the run diverged." if dagger else "")
    )


def _curves(found: Findings, drawn: Mapping[str, Drawn]) -> dict[str, Any]:
    sweep, quiet = found.sweep, silent(found)
    labels = {"tokens": "generated tokens", "steps": "steps", "seconds": "seconds"}
    tabs = [(f"curves_{x}", labels[x]) for x in AXES if f"curves_{x}" in drawn]
    lines = [f"{name} {share(value)}" for name, value in references(sweep)]
    note = (
        f"{validation_metric(sweep) or 'Validation'}: every seed thin, the mean over seeds thick as far as every seed "
        "goes; a cross is where a run diverged, which stays in the mean with its last value. Curves of "
        "training are smoothed."
    )
    if len(sweep.arms) > MANY:
        note += f" Dotted: the mean of {sweep.baseline}."
    return {
        "curve_tabs": tabs,
        "curves_note": note + (f" Dashed: {listed(lines)}." if lines else ""),
        "diagnostics_note": f"Means over seeds only, with more than {MANY} arms." if len(sweep.arms) > MANY else "",
        "diagnostics": [
            {"name": f"diagnostics_{s}", "title": s.capitalize(), "silent": quiet.get(s, "")}
            for s in SECTIONS
            if f"diagnostics_{s}" in drawn or s in quiet
        ],
    }


def _correlations(found: Findings) -> str:
    pairs = [(c.arm, c.correlation) for c in found.comparison.arms if c.correlation is not None]
    if not pairs:
        return ""
    words = listed([f"{arm} {share(value, 2)}" for arm, value in pairs], 20)
    return f"Correlation over blocks with {found.sweep.baseline}: {words}. The higher, the more pairing by block gains."


def _differing(found: Findings) -> dict[str, Any]:
    apart = [each.what for each in found.conditions if each.between_arms]
    known = any(run.environment for run in found.sweep.runs)
    return {
        "settings_table": page_tables.settings(found),
        "settings_why": "–: one arm only." if len(found.sweep.arms) == 1 else "–: no key differs between the arms.",
        "conditions_table": page_tables.conditions(found),
        "conditions_note": f"Arms of one block differ in {listed(apart)}: not compared." if apart
        else "The arms of each block agree, so the paired differences are not touched.",
        "conditions_same": "The same in all runs." if known else "–: no run recorded its environment.",
    }  # fmt: skip


def _samples(shown: SideBySide) -> dict[str, Any]:
    def sample(each: Any) -> dict[str, Any]:
        cls = "" if each.reward is None else "right" if each.reward > 0 else "wrong"
        return {"text": each.text, "reward": number(each.reward), "finish": each.finish, "tokens": each.tokens,
                "cls": cls}  # fmt: skip

    prompts = [
        {"prompt": p.prompt, "arms": {arm: [sample(s) for s in rows] for arm, rows in p.arms.items()}}
        for p in shown.prompts
    ]
    return {"seed": shown.seed, "step": shown.step, "note": shown.note, "prompts": prompts}
