"""Tables of the algorithms, made of conf/algo/: the head comments are the pages, the compositions are the parts."""

from __future__ import annotations

import re
from functools import cache

from grpo.algorithm.form import build
from grpo.algorithm.objective import Objective
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.pages import page

ORDER = (
    "grpo", "dapo", "gspo", "dr_grpo", "two_grpo", "sapo", "tis", "mis", "vespo", "dppo", "cispo", "scalerl", "gdpo",
    "gopo", "rloo", "reinforce", "reinforce_pp", "raft", "dpo",
)  # fmt: skip
COLUMNS = ("advantage", "ratio", "surrogate", "correction", "aggregation", "kl", "also")


def names() -> list[str]:
    """Every algorithm: the published ones, each followed by the chapter's form of it."""
    found = set(_composer().groups["algo"])
    ordered = [name for base in ORDER for name in (base, f"chapter/{base}") if name in found]
    return [*ordered, *sorted(found - set(ordered))]


@cache
def _composer() -> Composer:
    return Composer()


def objective(name: str) -> Objective:
    """The parts of `+algo=<name>`."""
    return build(load([f"+algo={name}"], _composer())[0])


def row(name: str) -> dict[str, str]:
    """Column → text; a dash where the form does not read the axis."""
    parts = objective(name)
    read = repr(parts.form) == "policy_gradient"
    cells = {axis: repr(getattr(parts, axis)) for axis in COLUMNS if axis != "also"}
    if not read:
        cells |= dict.fromkeys(("advantage", "ratio", "correction"), "–") | {"surrogate": repr(parts.form)}
    if read and repr(parts.credit) != "uniform":
        cells["advantage"] += f", {parts.credit!r}"
    also = [repr(part) for part in (parts.shaping, parts.entropy, parts.filter, parts.overlong)]
    also += ["group_size=2"] * name.endswith("two_grpo")
    cells["also"] = ", ".join(text for text in also if not text.startswith("no "))
    cells["kl"] = "" if cells["kl"] == "no KL" else cells["kl"]
    cells["correction"] = "" if cells["correction"] == "no correction" else cells["correction"]
    return cells


def parts_table() -> str:
    """Algorithm × parts; in bold what is not plain GRPO's."""
    base = row("grpo")
    lines = [f"| `+algo=` | {' | '.join(COLUMNS)} |", "|" + "---|" * (len(COLUMNS) + 1)]
    for name in names():
        cells = row(name)
        shown = [_cell(cells[c]) if cells[c] in (base[c], "–") else f"**{_cell(cells[c]) or 'none'}**" for c in COLUMNS]
        lines.append(f"| `{name}` | {' | '.join(shown)} |")
    return "\n".join(lines)


def table() -> str:
    """Published algorithms: formula, paper, and how the chapter's form of it differs."""
    lines = ["| `+algo=` | formula | paper | the chapter's form differs |", "|---|---|---|---|"]
    for name in [name for name in names() if not name.startswith("chapter/")]:
        about = page(name)
        formula = "<br>".join(f"`{_cell(line)}`" for line in about.formula)
        twin = f"[`chapter/{name}`](conf/algo/chapter/{name}.yaml): " if f"chapter/{name}" in names() else ""
        differs = about.differs or ("the same" if twin else "–")
        lines.append(
            f"| [`{name}`](conf/algo/{name}.yaml) | {formula} | {paper(about.title)} | {twin}{_cell(differs)} |"
        )
    return "\n".join(lines)


def paper(title: str) -> str:
    """The title line without the name, the arXiv id as a link."""
    text = title.split(", ", 1)[-1].rstrip(".")
    return _cell(re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
