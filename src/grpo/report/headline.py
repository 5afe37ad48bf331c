"""The answer in words: the first sentence of every page, and of the screen."""

from __future__ import annotations

from grpo.config.sentences import counted
from grpo.report.findings import Findings
from grpo.report.formats import listed, mean, share, spread

ORDER = ("better", "worse", "equivalent", "undecided", "not tested", "same algorithm", "too few blocks")


def headline(found: Findings) -> str:
    """One sentence over all arms."""
    comparison, base = found.comparison, found.sweep.baseline
    if not comparison.arms:
        scores = list(found.sweep.scores().get(base, {}).values())
        over = f"{share(mean(scores))} over {counted(len(scores), 'seed')}, sd {share(spread(scores))}"
        value = f"{base}: {found.sweep.endpoint} {over}" if scores else f"{base}: no result yet"
        return f"{value}. One arm only: nothing to compare it with."
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
        "too few blocks": "not judged, for too few blocks, against",
    }
    found_words = []
    for verdict, arms in groups.items():
        other = _twins(found, arms) if verdict == "same algorithm" else base
        found_words += [f"{listed(arms)} {'is' if len(arms) == 1 else 'are'} {words[verdict]} {other}"] if arms else []
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
    blocks, complete = counted(len(sweep.seeds), "block"), found.comparison.complete
    if complete != len(sweep.seeds):
        blocks = f"{complete} of {blocks} complete"
    title = sweep.title if sweep.manifest else "runs"
    parts = [title, subject, blocks, at(found), f"endpoint {sweep.endpoint}{margin}"]
    return " · ".join(part for part in parts if part)


def variance_sentence(found: Findings) -> str:
    """seeds 71 %, questions 22 %, sampling 7 %, and whether evaluation noise is small enough."""
    split = found.split
    if split is None:
        return f"Variance: {found.split_note}."
    if split.seed + split.question + split.sampling <= 0:
        return f"Noise: {split.sentence} ({found.split_note})."
    return f"Noise: {split.shares} ({found.split_note}); {split.sentence}."
