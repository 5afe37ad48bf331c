"""One row per token. What all algorithms agree on stands in one column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.explain.batch import Numbers
    from grpo.explain.explained import Explained


@dataclass(frozen=True)
class _Column:
    """A column of the table: its head, and the algorithms whose numbers it may show, with their masks."""

    head: str
    values: list[Tensor]
    masks: Sequence[Tensor]

    def cell(self, i: int, t: int, digits: int, sign: bool) -> str:
        for values, mask in zip(self.values, self.masks, strict=True):
            if mask[i, t]:
                return number(values[i, t], digits, sign)
        return ""


def columns(explained: Sequence[Explained], names: Sequence[str]) -> tuple[list[_Column], list[_Column], list[_Column]]:
    """Columns that stand once per completion (A), once per token (ρ, correction), and results (weight, gradient)."""
    accounts = [one.made for one in explained]
    masks, rows = [a.mask for a in accounts], [a.rows for a in accounts]

    def per(word: str, values: Sequence[Tensor | None], inside: Sequence[Tensor]) -> list[_Column]:
        """A column for each algorithm that has one, or a single one if all are equal."""
        if len(explained) > 1 and not _same(values, inside):
            named = zip(names, values, masks, strict=True)
            return [_Column(f"{name} {word}", [v], [m]) for name, v, m in named if v is not None]
        return [_Column(word, [v for v in values if v is not None], masks)] if values[0] is not None else []

    tokens = per("A of token", [a.token_advantages for a in accounts], masks)
    tokens += per("ρ", [a.ratio for a in accounts], masks)
    tokens += per("correction", [a.correction for a in accounts], masks)
    results = [_Column(f"{name} weight".strip(), [a.weight], [a.mask]) for name, a in zip(names, accounts, strict=True)]
    if len(explained) == 1:
        results.append(_Column("gradient", [accounts[0].gradient], masks))
    return per("A", [a.advantages for a in accounts], rows), tokens, results


def _same(values: Sequence[Tensor | None], masks: Sequence[Tensor]) -> bool:
    """True if all algorithms agree, on tokens that are in both losses."""
    if any((v is None) != (values[0] is None) for v in values):
        return False
    pairs = [(v, m & masks[0]) for v, m in zip(values, masks, strict=True)]
    return all(v is None or bool(((v == values[0]) | ~both).all()) for v, both in pairs)


def token_table(explained: Sequence[Explained], numbers: Numbers, names: Sequence[str]) -> Table:
    """The table of all tokens that were sampled; an empty completion keeps a row."""
    by_row, by_token, results = columns(explained, names)
    row_heads, token_heads = [c.head for c in by_row], [c.head for c in [*by_token, *results]]
    heads = ["", "reward", *row_heads, "token", "π_old", "π", *token_heads, ""]
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    for i, word in enumerate(heads):
        table.add_column(word, justify="left" if word in ("", "token") else "right", no_wrap=i + 1 < len(heads))
    for i, row in enumerate(numbers.mask):
        for t in [t for t, counts in enumerate(row) if counts] or [0]:
            first = not any(row[:t])
            cells = [str(i + 1), number(explained[0].made.rewards[i], 2)] if first else ["", ""]
            cells += [number(c.values[0][i], 4, True) if first else "" for c in by_row]
            cells += [json.dumps(numbers.tokens[i][t], ensure_ascii=False) if numbers.tokens[i][t] else str(t + 1)]
            cells += [_probability(numbers, name, i, t) for name in ("logp_old", "logp")]
            cells += [c.cell(i, t, 3, sign=c.head.endswith("token")) for c in by_token]
            cells += [c.cell(i, t, 4, sign=True) for c in results]
            table.add_row(*(Text(cell) for cell in cells), Text(reason(explained, names, i, t), style="dim"))
    return table


def reason(explained: Sequence[Explained], names: Sequence[str], i: int, t: int) -> str:
    """Why a token counts less; with several algorithms, whose reason it is."""
    texts: dict[str, list[str]] = {}
    for one, name in zip(explained, names, strict=True):
        text = one.made.left_out[i] or one.made.reasons[i][t]
        texts.setdefault(text.split(";")[0] if len(explained) > 1 else text, []).append(name)
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{', '.join(who)}: {text}" for text, who in texts.items() if text)


def _probability(numbers: Numbers, name: str, i: int, t: int) -> str:
    rows = numbers.columns.get(name, numbers.columns["logp"])
    return f"{exp(rows[i][t]):.3f}" if numbers.mask[i][t] else ""


def number(value: Any, digits: int, sign: bool = False) -> str:
    """Fixed digits with a real minus sign; – for NaN."""
    x = float(value)
    return "–" if x != x else f"{x + 0.0:{'+' if sign and round(x, digits) else ''}.{digits}f}".replace("-", "−")
