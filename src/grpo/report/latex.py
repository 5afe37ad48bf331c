"""table.tex: the table of arms for a paper; booktabs, nothing else. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from grpo.report import table
from grpo.report.findings import Findings
from grpo.report.formats import interval, probability, share, signed, tokens

_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "−": r"$-$", "–": "--", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≥": r"$\geq$", "≤": r"$\leq$",
    "ε": r"$\varepsilon$", "β": r"$\beta$", "α": r"$\alpha$", "λ": r"$\lambda$", "τ": r"$\tau$", "∞": r"$\infty$",
    "→": r"$\to$", "π": r"$\pi$", "μ": r"$\mu$", "|": r"\textbar{}", '"': "''",
}  # fmt: skip


def escape(text: object) -> str:
    """Text that LaTeX typesets as it is; one line."""
    return "".join(_ESCAPES.get(character, character) for character in " ".join(str(text).split()))


def text(found: Findings) -> str:
    """The whole file, with the caption that the numbers need."""
    sweep, contrasts = found.sweep, {contrast.arm: contrast for contrast in found.comparison.arms}
    heads = ["arm", f"{sweep.endpoint} (sd)", "difference", "simultaneous interval", "$p$ (Holm)", "failed", "tokens",
             "verdict"]  # fmt: skip
    body = []
    for row in table.rows(found):
        contrast = contrasts.get(row.arm)
        failed = f"{row.failures.failed}/{row.failures.counted}"
        cells = [row.arm, f"{share(row.mean)} ({share(row.sd)})"]
        if contrast is None:
            cells += ["baseline", "–", "–", failed, tokens(row.tokens), "–"]
        else:
            cells += [signed(contrast.mean), interval(contrast.low, contrast.high), probability(contrast.p_holm)]
            cells += [failed, tokens(row.tokens), contrast.verdict]
        body.append(cells)
    heads = [head if "$" in head else escape(head) for head in heads]
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}[t]",
        "  \\centering",
        f"  \\caption{{{caption(found)}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(heads) - 2)}l}}",
        "    \\toprule",
        _line(heads),
        "    \\midrule",
        *(_line([escape(cell) for cell in cells]) for cells in body),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def caption(found: Findings) -> str:
    """What the numbers are, escaped."""
    sweep, comparison = found.sweep, found.comparison
    state = ""
    if comparison.exploratory:
        state = f" Exploratory: {comparison.exploratory}."
    elif comparison.interim:
        state = f" Interim: {comparison.interim}."
    budget = f" at {sweep.budget:,} generated tokens" if sweep.budget else ""
    words = (
        f"{sweep.endpoint}{budget}, mean and standard deviation over {len(sweep.seeds)} seeds; paired differences to "
        f"{sweep.baseline} with Bonferroni-adjusted simultaneous intervals ({100 * (1 - comparison.alpha):g} %).{state}"
    )
    return escape(words)
