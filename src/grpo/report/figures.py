"""The figures of a report by name, drawn once and kept as PNG, PDF and, for the page, as a data address.

To add a figure: a row in `plan`, and its place in the template.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grpo.config.sentences import counted
from grpo.errors import UserError
from grpo.report import panels
from grpo.report.figures_bars import tuning, variance
from grpo.report.figures_curves import AXES, constants, curves, diagnostics, recorded, varying
from grpo.report.figures_forest import forest
from grpo.report.figures_style import RC
from grpo.report.findings import Findings
from grpo.report.formats import listed, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SVG_LIMIT = 160_000
"""Bytes of SVG that the page takes; of a larger figure it shows the PNG (the PDF is vector in any case)."""


@dataclass(frozen=True)
class Plan:
    """A figure that can be drawn."""

    name: str
    title: str
    alt: str
    """What the picture shows, for those who cannot see it."""
    draw: Callable[[], Figure | None]


@dataclass(frozen=True)
class Drawn:
    """A figure that was drawn."""

    name: str
    title: str
    alt: str
    data: str
    """data: address of the picture for the page."""
    width: int
    height: int


def plan(found: Findings) -> tuple[Plan, ...]:
    """All figures that these records allow, in the order of the page."""
    sweep = found.sweep
    every = []
    if any(contrast.differences for contrast in found.comparison.arms):
        every.append(Plan("forest", "Paired differences", _forest_alt(found), lambda: forest(found)))
    if sweep.tuning:
        alt = f"Validation accuracy of {counted(len(sweep.tuning), 'tuning run')}, by arm and tuned value"
        every.append(Plan("tuning", "Tuning", alt, lambda: tuning(sweep)))
    if sweep.started:
        for x in AXES:
            alt = f"Held-out accuracy and training reward against {x}, of {listed(list(sweep.arms))}"
            every.append(Plan(f"curves_{x}", f"Curves against {x}", alt, lambda x=x: curves(sweep, x)))
    for section in panels.SECTIONS:
        if varying(sweep, section):
            alt = f"{section.capitalize()} over training: {listed([t for _, _, t in varying(sweep, section)], 20)}"
            draw = lambda section=section: diagnostics(sweep, section)  # noqa: E731
            every.append(Plan(f"diagnostics_{section}", section.capitalize(), alt, draw))
    if found.split is not None:
        every.append(Plan("variance", "Variance", _variance_alt(found), lambda: variance(found)))
    return tuple(every)


def silent(found: Findings) -> dict[str, str]:
    """Section → its metrics that never varied, in words, for the page."""
    words = {section: listed(constants(found.sweep, section), 40) for section in panels.SECTIONS}
    return {section: text for section, text in words.items() if text and recorded(found.sweep, section)}


def _forest_alt(found: Findings) -> str:
    rows = [f"{c.arm} {signed(c.mean)}, {c.verdict}" for c in found.comparison.arms]
    return f"Paired differences of {found.sweep.endpoint} to {found.sweep.baseline}: {listed(rows, 20)}"


def _variance_alt(found: Findings) -> str:
    return f"Variance: {found.split.shares}" if found.split else ""


def draw(found: Findings, folder: Path, only: str | None = None) -> dict[str, Drawn]:
    """Write <folder>/<name>.png and .pdf of all figures, or of one; returns them by name."""
    from matplotlib import rc_context

    plans = plan(found)
    if only is not None and only not in {each.name for each in plans}:
        raise UserError(f"--only   there is no figure {only} here; there are {', '.join(p.name for p in plans)}")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    with rc_context(RC):  # pyright: ignore[reportArgumentType]
        for each in plans:
            if only in (None, each.name) and (figure := each.draw()) is not None:
                drawn[each.name] = _keep(each, figure, folder)
    return drawn


def _keep(each: Plan, figure: Figure, folder: Path) -> Drawn:
    """Metadata without a date: the same records give the same bytes."""
    figure.savefig(folder / f"{each.name}.png", dpi=180)
    _lighten(folder / f"{each.name}.png")
    figure.savefig(folder / f"{each.name}.pdf", metadata={"CreationDate": None})
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    kind, content = "svg+xml", buffer.getvalue()
    if len(content) > SVG_LIMIT:
        kind, content = "png", (folder / f"{each.name}.png").read_bytes()
    data = f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    return Drawn(each.name, each.title, each.alt, data, width, height)


def _lighten(picture: Path) -> None:
    """256 colours: a third of the bytes, which the page carries too, and no eye sees the difference in a line plot."""
    from PIL import Image

    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)
