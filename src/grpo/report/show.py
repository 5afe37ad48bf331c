"""The answer on the screen."""

from __future__ import annotations

from grpo.report.contrast import Contrast
from grpo.report.findings import Findings
from grpo.report.formats import listed, share
from grpo.report.headline import headline, subtitle, variance_sentence


def _sentence(contrast: Contrast) -> str:
    """The contrast's own, but why there is no verdict is said once for all."""
    if contrast.verdict not in ("exploratory", "interim"):
        return contrast.sentence
    words = "; ".join([contrast.verdict, *contrast.notes])
    return f"{contrast.arm} against {contrast.baseline}    {contrast.numbers}   {words}"


def lines(found: Findings) -> list[str]:
    """Subtitle, a line per arm, what acted, noise, what is missing."""
    sweep = found.sweep
    text = [subtitle(found)]
    contrasts = found.comparison.arms
    said = [_sentence(contrast) for contrast in contrasts]
    width = max(map(len, said), default=0)
    text += [f"  {s:{width}}     {found.failures[c.arm].words}" for s, c in zip(said, contrasts, strict=True)]
    if not contrasts or found.comparison.exploratory or found.comparison.interim:
        text.append(f"  {headline(found)}")
    tail = []
    if found.acted:
        tail.append(f"active: {found.acted.sentence(sweep.baseline)}")
    if found.split:
        tail.append(variance_sentence(found))
    correlations = [f"{c.arm} {share(c.correlation, 2)}" for c in contrasts if c.correlation is not None]
    if correlations:
        tail.append(f"correlation with {sweep.baseline}: {listed(correlations)}")
    text += tail
    text += [f"note: {note}" for note in found.notes]
    text += [f"missing: {each}" for each in found.missing[:8]]
    if len(found.missing) > 8:
        text.append(f"missing: and {len(found.missing) - 8} more")
    return text
