"""Numbers as the report writes them. What is missing is a dash, and never nan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

DASH = "–"


def share(value: float | None, digits: int = 3) -> str:
    """0.714"""
    return DASH if value is None or not math.isfinite(value) else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """+0.021, −0.004"""
    return DASH if value is None or not math.isfinite(value) else f"{value:+.{digits}f}".replace("-", "−")


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """[+0.004, +0.038]"""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return DASH
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def probability(value: float | None) -> str:
    """0.012, < 0.001"""
    return DASH if value is None or not math.isfinite(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def percent(value: float | None, digits: int = 0) -> str:
    """12 %"""
    return DASH if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %".replace("-", "−")


def tokens(value: float | None) -> str:
    """950, 40.0k, 400k, 1.25M"""
    if value is None or not math.isfinite(value):
        return DASH
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}" if abs(value) < 999.5 * size else f"{value / size:.0f}{letter}"
    return f"{value:.0f}"


def seconds(value: float | None) -> str:
    """47 s, 12:05, 2:07:31"""
    if value is None or not math.isfinite(value):
        return DASH
    whole = round(value)
    if whole < 60:
        return f"{value:.1f} s" if value < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def number(value: float | None) -> str:
    """Any number, three digits that count."""
    if value is None or not math.isfinite(value):
        return DASH
    return (f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}").replace("-", "−")


def setting(value: object) -> str:
    """A value of a configuration: 0.0001 → 1e-4 as a person writes it, null, true."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = f"{value:g}"
        return text.replace("e-0", "e-").replace("e+0", "e") if "e" in text else text
    return str(value)


def mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return fmean(values) if values else None


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation over runs (ddof 1); None below two."""
    return stdev(values) if len(values) > 1 else None


def listed(words: Sequence[str], at_most: int = 6) -> str:
    """a, b and c; of many the first ones, and how many more."""
    words = list(words)
    if len(words) > at_most:
        return f"{', '.join(words[:at_most])} and {len(words) - at_most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""
