"""The tables of the page as rows of cells: text to read, value to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from grpo.report import table
from grpo.report.failures import FailureShare
from grpo.report.figures_style import Look
from grpo.report.findings import Findings
from grpo.report.formats import DASH, interval, number, percent, probability, seconds, share, signed, tokens


@dataclass(frozen=True)
class Cell:
    """One cell; an empty value sorts last."""

    text: str | Markup
    value: str | float = ""
    cls: str = ""
    title: str = ""
    arm: bool = False


@dataclass(frozen=True)
class Line:
    """One row; `base` marks the baseline."""

    cells: tuple[Cell, ...]
    base: bool = False


@dataclass(frozen=True)
class Table:
    """Heads and rows."""

    heads: tuple[str, ...]
    rows: tuple[Line, ...]
    words: bool = False
    """Columns of text, not of numbers: heads on the left."""


def _num(text: str, value: float | None, title: str = "") -> Cell:
    return Cell(text, "" if value is None else value, title=title)


def _free(text: str) -> Cell:
    return Cell(text, text, "free")


def _name(arm: str) -> Cell:
    return Cell(arm, arm, arm=True)


def _table(found: Findings, heads: Sequence[str], rows: Iterable[tuple[str, Sequence[Cell]]]) -> Table:
    base = found.sweep.baseline if len(found.sweep.arms) > 1 else None
    return Table(tuple(heads), tuple(Line((_name(arm), *cells), arm == base) for arm, cells in rows))


def arms(found: Findings, rows: Sequence[table.Row], looks: Mapping[str, Look]) -> Table:
    """Means over the results of each arm, with every seed as a dot."""
    names, endpoint = table.metric_names(found.sweep), found.sweep.endpoint
    heads = ("arm", endpoint, "every seed", "sd", "greedy", names["passes"], names["majority"], "length", "tokens",
             "steps", "time", "dead groups", "cut", "health")  # fmt: skip
    scores = [seed.score for row in rows for seed in row.seeds if seed.score is not None]
    ends = (min(scores), max(scores)) if scores else (0.0, 1.0)

    def cells(row: table.Row) -> list[Cell]:
        return [
            _num(share(row.mean), row.mean),
            Cell(strip(row, ends, looks[row.arm].color), "" if row.mean is None else row.mean),
            _num(share(row.sd), row.sd),
            _num(share(row.greedy), row.greedy),
            _num(share(row.passes), row.passes),
            _num(share(row.majority), row.majority),
            _num(share(row.length, 1), row.length),
            _num(tokens(row.tokens), row.tokens),
            _num(share(row.steps, 0), row.steps),
            _num(seconds(row.seconds), row.seconds),
            _num(percent(row.dead), row.dead),
            _num(percent(row.cut, 1), row.cut),
            _num(row.failures.words, float(row.failures.failed) if row.failures.counted else None),
        ]

    return _table(found, heads, ((row.arm, cells(row)) for row in rows))


def strip(row: table.Row, ends: tuple[float, float], color: str) -> Markup:
    """A tiny dot plot on the scale of all arms; a diverged run is hollow, the mean a tick."""
    width, height, pad = 120, 18, 6
    low, high = ends

    def x(value: float) -> float:
        return round(pad + (width - 2 * pad) * ((value - low) / (high - low) if high > low else 0.5), 1)

    dots = Markup("")
    for seed in row.seeds:
        if seed.score is not None:
            fill = "none" if seed.state == "diverged" else color
            label = f"seed {seed.seed}: {share(seed.score)}{' (diverged)' if seed.state == 'diverged' else ''}"
            dots += Markup(
                '<circle cx="{}" cy="9" r="3.4" fill="{}" stroke="{}" fill-opacity="0.5"><title>{}</title></circle>'
            ).format(x(seed.score), fill, color, label)
    if row.mean is not None:
        dots += Markup('<path d="M{0} 2V16" stroke="{1}" stroke-width="2"/>').format(x(row.mean), color)
    return Markup('<svg width="{}" height="{}" role="img" aria-label="{}">{}</svg>').format(
        width, height, f"seeds of {row.arm}", dots
    )


def seeds(found: Findings, rows: Sequence[table.Row]) -> Table:
    """Every run's number; what is no result shows its state."""
    every = list(dict.fromkeys(seed.seed for row in rows for seed in row.seeds))

    def cells(row: table.Row) -> list[Cell]:
        by_seed = {seed.seed: seed for seed in row.seeds}
        return [_seed(by_seed.get(seed), found.sweep.endpoint) for seed in every]

    return _table(found, ("arm", *(f"seed {seed}" for seed in every)), ((row.arm, cells(row)) for row in rows))


def _seed(seed: table.Seed | None, endpoint: str) -> Cell:
    if seed is None:
        return Cell(DASH)
    if seed.score is None:
        return Cell(seed.state)
    mark = " †" if seed.score_from != endpoint else ""
    return Cell(share(seed.score) + mark, seed.score, title=f"{seed.state}; {seed.score_from}")


def differences(found: Findings) -> Table | None:
    """The contrasts with all their numbers; None with one arm."""
    contrasts = found.comparison.arms
    if not contrasts:
        return None
    heads = ("arm", "difference", "simultaneous interval", "p", "p (Holm)", "p (sign flip)", "correlation", "blocks",
             "blocks needed", "verdict")  # fmt: skip
    rows = [
        (c.arm, [
            _num(signed(c.mean), c.mean),
            _num(interval(c.low, c.high), c.low),
            _num(probability(c.p), c.p),
            _num(probability(c.p_holm), c.p_holm),
            _num(probability(c.p_sign), c.p_sign),
            _num(share(c.correlation, 2), c.correlation),
            _num(str(len(c.differences)), float(len(c.differences))),
            _num(DASH if c.blocks_needed is None else str(c.blocks_needed), c.blocks_needed),
            Cell(c.verdict, c.verdict),
        ])
        for c in contrasts
    ]  # fmt: skip
    return _table(found, heads, rows)


def failures(found: Findings) -> Table:
    """Share of failed runs with its exact interval, and the exact tests against the baseline."""

    def cells(each: FailureShare) -> list[Cell]:
        kinds = found.failures[each.arm]
        if not each.runs:
            return [Cell("0", 0.0), *(Cell(DASH) for _ in range(6))]
        rate = each.failed / each.runs
        return [
            _num(str(each.runs), float(each.runs)),
            _num(str(kinds.diverged), float(kinds.diverged)),
            _num(str(kinds.collapsed), float(kinds.collapsed)),
            _num(percent(rate), rate),
            _num(f"{percent(each.low)} to {percent(each.high)}", each.low),
            _num(probability(each.p_mcnemar), each.p_mcnemar),
            _num(probability(each.p_fisher), each.p_fisher),
        ]

    heads = ("arm", "results", "diverged", "collapsed", "failed", "95 % interval", "p (McNemar)", "p (Fisher)")
    return _table(found, heads, ((each.arm, cells(each)) for each in found.failure_shares))


def algorithms(found: Findings, rows: Sequence[table.Row]) -> Table:
    """What each arm is, whose numbers it uses, and what tuning chose."""

    def lr(arm: str) -> float | None:
        run = found.sweep.example(arm)
        value = (run.config.get("optimizer") or {}).get("lr") if run else None
        return float(value) if isinstance(value, int | float) else None

    heads = ("arm", "its own overrides", "settings", "tuned", "learning rate", "objective")
    body = (
        (row.arm, [_free(" ".join(row.overrides) or DASH), _free(row.settings), _free(row.tuned),
                   _num(number(lr(row.arm)), lr(row.arm)), _free(row.algorithm or DASH)])
        for row in rows
    )  # fmt: skip
    return replace(_table(found, heads, body), words=True)


def settings(found: Findings) -> Table | None:
    """One row per key that differs."""
    if not found.settings:
        return None
    names = list(found.settings[0].values)
    rows = []
    for each in found.settings:
        key = Cell(Markup("<code>{}</code>").format(each.key), each.key)
        rows.append(Line((key, *(Cell(each.values[arm], each.values[arm], "setting") for arm in names))))
    return Table(("key", *names), tuple(rows), words=True)


def conditions(found: Findings) -> Table | None:
    """One row per value of what differs between runs."""
    if not found.conditions:
        return None
    rows = [
        Line((Cell(each.what, each.what), Cell(value, value, "left"), Cell(str(len(runs)), float(len(runs))),
              _free(", ".join(runs)), Cell("yes" if each.between_arms else "no", "")))
        for each in found.conditions
        for value, runs in each.runs.items()
    ]  # fmt: skip
    return Table(("what", "value", "runs", "which", "differs within a block"), tuple(rows), words=True)
