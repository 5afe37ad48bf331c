"""The answer in words: the first sentence of every page, and of the screen."""

from __future__ import annotations

from grpo.report.findings import Findings
from grpo.report.formats import listed, plural, share

ORDER = ("better", "worse", "equivalent", "undecided", "not tested", "same algorithm", "too few blocks")


def headline(found: Findings) -> str:
    """One sentence over all arms."""
    comparison, base = found.comparison, found.sweep.baseline
    if not comparison.arms:
        return f"One arm only ({base}): nothing to compare it with."
    if comparison.exploratory:
        same = [c.arm for c in comparison.arms if c.verdict == "same algorithm"]
        also = f" {listed(same)}: the same algorithm." if same else ""
        return f"Exploratory, no verdict: {comparison.exploratory}.{also}"
    if comparison.interim:
        return f"Interim, no verdict yet: {comparison.interim}."
    groups = {verdict: [c.arm for c in comparison.arms if c.verdict == verdict] for verdict in ORDER}
    words = {
        "better": "better than",
        "worse": "worse than",
        "equivalent": f"equivalent within ±{comparison.margin or 0:g} to",
        "undecided": "undecided against",
        "not tested": "not tested against",
        "same algorithm": "the same algorithm as",
        "too few blocks": "too few blocks to judge against",
    }
    found_words = [
        f"{listed(arms)} {'is' if len(arms) == 1 else 'are'} {words[verdict]} {base if verdict != 'same algorithm' else _twins(found, arms)}"
        for verdict, arms in groups.items()
        if arms
    ]
    return f"At {at(found)}, {'; '.join(found_words)}." if found_words else "No verdict."


def _twins(found: Findings, arms: list[str]) -> str:
    return listed(sorted({found.sweep.same.get(arm, found.sweep.baseline) for arm in arms}))


def at(found: Findings) -> str:
    """Where the arms are compared."""
    budget = found.sweep.budget
    return f"{budget:,} generated tokens" if budget else "the end of the runs"


def sentences(found: Findings) -> list[tuple[str, str]]:
    """Arm and its sentence with difference, interval and verdict."""
    return [(contrast.arm, contrast.sentence) for contrast in found.comparison.arms]


def subtitle(found: Findings) -> str:
    """clip_high · arithmetic, tiny · 10 blocks · 400,000 generated tokens · endpoint test/avg@8, margin 0.03"""
    sweep = found.sweep
    example = next((run for run in sweep.runs if run.config), None)
    choices = (example.config.get("choices") or {}) if example else {}
    subject = ", ".join(str(choices[key]) for key in ("task", "model") if choices.get(key))
    margin = f", margin {sweep.margin:g}" if sweep.margin else ""
    complete = f"{found.comparison.complete} of {plural(len(sweep.seeds), 'block')}"
    blocks = plural(len(sweep.seeds), "block") if found.comparison.complete == len(sweep.seeds) else f"{complete} complete"
    parts = [sweep.title if sweep.manifest else "runs", subject, blocks, at(found), f"endpoint {sweep.endpoint}{margin}"]
    return " · ".join(part for part in parts if part)


def variance_sentence(found: Findings) -> str:
    """seeds 71 %, questions 22 %, sampling 7 %, and whether evaluation noise is small enough."""
    split = found.split
    if split is None:
        return f"Variance: {found.split_note}."
    total = split.seed + split.question + split.sampling
    if total <= 0:
        return f"Noise: all finished runs have the same score ({found.split_note})."
    parts = [100 * part / total for part in (split.seed, split.question, split.sampling)]
    words = f"Noise: seeds {parts[0]:.0f} %, questions {parts[1]:.0f} %, sampling {parts[2]:.0f} %, {found.split_note}."
    # standard deviations, not variances: a third of the spread is a ninth of the variance
    noise, seed = (split.question + split.sampling) ** 0.5, max(split.seed, 0.0) ** 0.5
    if seed <= 0:
        return words + " The spread between seeds is no larger than evaluation noise: ask more test questions."
    ratio = noise / seed
    judged = "at most the third that is allowed" if ratio <= 1 / 3 else "more than a third: ask more test questions"
    return words + f" Evaluation noise is {share(ratio, 2)} of the spread between seeds, {judged}."
