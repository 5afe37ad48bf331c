"""The comparison on W&B: the local report's files as an artifact, a workspace, and a report in W&B's own form.

    push(<sweep folder>, "entity/project", {"report.html": …}, verdicts, details)

All three are made once per sweep and project and updated afterwards; <sweep>/wandb.json remembers which they are.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.errors import UserError
from grpo.recording.recorder import read_metrics
from grpo.recording.wandb_env import group_name, has_key
from grpo.report.panels import PANELS, SECTIONS, of_section
from grpo.report.workspace import COLUMNS, REPORT_JOB, X_AXIS, arms_of, build, draw, library
from grpo.runs.atomic import read_json, write_json
from grpo.sweep import cache, manifest

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2.interface import Report

log = logging.getLogger(__name__)

FILE = "wandb.json"
FOREST = "forest.png"


def push(
    sweep_folder: Path, entity_project: str, pages: Mapping[str, Path], verdicts: Sequence[str], details: str
) -> list[str]:
    """Upload the pages, then create or update the workspace and the report; their URLs.

    pages: name in the artifact → file or folder; the table of arms is taken from report.md, the forest plot from
    forest.png. UserError where W&B or wandb-workspaces cannot be used; whatever is on disk stays.
    """
    entity, _, project = entity_project.partition("/")
    if not entity or not project or "/" in project:
        raise UserError(f"--wandb   takes ENTITY/PROJECT, such as --wandb my-team/grpo, not {entity_project}")
    library()
    if not has_key():
        raise UserError("--wandb   needs a W&B key; run `wandb login`. The report on disk is complete")
    sweep = sweep_folder.resolve().name
    names = recorded(sweep_folder)
    for sentence in not_there(sweep_folder):
        log.warning("%s", sentence)
    board = build(PANELS, sweep, entity, project, names)
    page = report(sweep, entity, project, names, verdicts, arms_table(pages), details)
    before = (sweep_folder / FILE).exists()
    try:
        return _send(sweep_folder, board, page, pages)
    except UserError:
        raise
    except Exception as error:  # wandb-workspaces raises bare Exception, the client a dozen kinds
        what = " ".join(str(error).split()) or type(error).__name__
        if before:
            what += f"; if its workspace or report was deleted there, remove {sweep_folder / FILE}"
        raise UserError(f"--wandb   W&B did not take it ({what}). The report on disk is complete") from error


def _send(folder: Path, board: Any, page: Report, pages: Mapping[str, Path]) -> list[str]:
    """Everything that needs the network; what exists already is found again through wandb.json."""
    place, known = f"{board.entity}/{board.project}", read_json(folder / FILE) or {"v": 1}
    entry = known.setdefault(place, {})
    entry["run"] = _upload(folder, board, pages)
    board._internal_name = entry.get("workspace", {}).get("name", "")
    board._internal_id = entry.get("workspace", {}).get("id", "")
    board.save()
    entry["workspace"] = {"name": board._internal_name, "id": board._internal_id, "url": board.url}
    write_json(folder / FILE, known)  # before the report: a failure there must not make a second workspace next time
    page.id = entry.get("report", {}).get("id", "")
    page.save()
    entry["report"] = {"id": page.id, "url": page.url}
    write_json(folder / FILE, known)
    return [entry["run"], entry["workspace"]["url"], entry["report"]["url"]]


def _upload(folder: Path, board: Any, pages: Mapping[str, Path]) -> str:
    """A run of the sweep's group that carries the files; the same one each time. Returns its URL."""
    import wandb

    digest = hashlib.sha256(board.name.encode()).hexdigest()[:8]
    with wandb.init(
        entity=board.entity,
        project=board.project,
        id=f"{REPORT_JOB}-{digest}",
        resume="allow",
        name=f"{REPORT_JOB} {board.name}"[:128],
        group=group_name(board.name),
        dir=folder,
        job_type=REPORT_JOB,
        mode="online",
        settings=wandb.Settings(console="off", silent=True, init_timeout=30),
    ) as run:
        artifact = wandb.Artifact(f"{REPORT_JOB}-{digest}", type=REPORT_JOB, metadata={"sweep": board.name})
        for name, path in pages.items():
            add = artifact.add_dir if path.is_dir() else artifact.add_file
            add(str(path), name=name)
        run.log_artifact(artifact)
        if forest := forest_plot(pages):
            run.log({"forest": wandb.Image(str(forest))})
        return str(run.url)


def report(
    sweep: str,
    entity: str,
    project: str,
    names: Iterable[str],
    verdicts: Sequence[str],
    table: str,
    details: str,
) -> Report:
    """The W&B report, not saved. verdicts: a sentence per arm; table: Markdown; details: a paragraph."""
    import wandb_workspaces.reports.v2.interface as wr

    where: Any = {"entity": entity, "project": project}
    arms = wr.Runset(**where, name=sweep[:64], filters=arms_of(sweep), groupby=["JobType"])
    carrier = wr.Runset(
        **where,
        name=REPORT_JOB,
        filters=f"Metric('Group') == '{group_name(sweep)}' and Metric('JobType') == '{REPORT_JOB}'",
    )
    forest = wr.MediaBrowser(title="Differences", media_keys=["forest"], num_columns=1, layout=wr.Layout(w=24, h=12))
    blocks: list[Any] = [wr.UnorderedList(items=[*verdicts])] if verdicts else []
    blocks += [wr.H2("Arms"), wr.MarkdownBlock(table)] if table else []
    blocks += [wr.H2("Differences to the baseline"), wr.PanelGrid(runsets=[carrier], panels=[forest])]
    blocks += [block for section, drawn in grids(set(names)) for block in (
        wr.H2(section.capitalize()), wr.PanelGrid(runsets=[arms], panels=drawn))]  # fmt: skip
    blocks += [wr.H2("Experimental details"), wr.P(details)] if details else []
    return wr.Report(**where, title=sweep[:128], description=verdicts[0] if verdicts else "", blocks=blocks)


def grids(names: set[str]) -> Iterator[tuple[str, list[Any]]]:
    """Section and its panels, side by side."""
    import wandb_workspaces.reports.v2.interface as wr

    for section in SECTIONS:
        found = [(panel, panel.recorded(names)) for panel in of_section(section)]
        drawn = [draw(panel, metrics, x=X_AXIS) for panel, metrics in found if metrics]
        for i, each in enumerate(drawn):
            each.layout = wr.Layout(x=8 * (i % COLUMNS), y=6 * (i // COLUMNS), w=8, h=6)
        if drawn:
            yield section, drawn


def arms_table(pages: Mapping[str, Path]) -> str:
    """The Markdown table under "## Arms" of report.md; empty where there is none."""
    page = pages.get("report.md")
    text = page.read_text(encoding="utf-8") if page else ""
    found = re.search(r"^## Arms\n+((?:\|.*\n?)+)", text, re.MULTILINE)
    return found[1].strip() if found else ""


def forest_plot(pages: Mapping[str, Path]) -> Path | None:
    """forest.png among the pages or in a folder of them."""
    candidates = [file for path in pages.values() for file in (path, path / FOREST)]
    return next((file for file in candidates if file.name == FOREST and file.is_file()), None)


def recorded(sweep_folder: Path) -> set[str]:
    """Every metric that a run of the comparison recorded."""
    return {
        name
        for folder in _final(sweep_folder).values()
        if (folder / "metrics.jsonl").exists()
        for row in read_metrics(folder).values()
        for name in row
    }


def _final(sweep_folder: Path) -> dict[str, Path]:
    """Job → run folder, of the runs that the comparison counts."""
    found = manifest.read(sweep_folder)
    if found is None:
        raise UserError(f"--wandb   {sweep_folder} is no sweep ({manifest.FILE} is missing), so W&B has no group of it")
    return {job.id: sweep_folder / job.folder for job in found.final()}


def not_there(sweep_folder: Path) -> list[str]:
    """What W&B will not show, and why: a sentence each."""
    runs, sentences = _final(sweep_folder), []
    copies = [folder for folder in runs.values() if (folder / cache.FILE).exists()]
    parts = [part for folder in runs.values() if (part := _last_part(folder)) is not None]
    if away := [part for part in parts if part.name.startswith("offline-") and not list(part.glob("*.synced"))]:
        where = " ".join(str(part) for part in away[:3]) + (" …" if len(away) > 3 else "")
        sentences.append(
            f"{len(away)} of {len(runs)} runs were recorded offline and are not uploaded: wandb sync {where}"
        )
    if silent := len([folder for folder in runs.values() if folder.exists()]) - len(parts) - len(copies):
        sentences.append(f"{silent} of {len(runs)} runs were made with logger=none; W&B has nothing of them")
    if copies:
        sentences.append(f"{len(copies)} runs were copied from equal ones; on W&B they stay where those are")
    return sentences


def _last_part(folder: Path) -> Path | None:
    """W&B's newest folder of a run; an offline one holds the whole run."""
    parts = [part for part in (folder / "wandb").glob("*run-*-*") if part.is_dir() and not part.is_symlink()]
    return max(parts, key=lambda part: part.name.removeprefix("offline-"), default=None)
