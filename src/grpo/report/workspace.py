"""The W&B workspace of a sweep, from the same list of panels as the local report.

Arms are W&B's job types: every panel draws their means, shaded from the lowest to the highest seed, against generated
tokens. The x axis is the workspace's and not the panels', so that one switch turns all of them to steps or seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from grpo.errors import UserError
from grpo.recording.wandb_env import group_name
from grpo.report.panels import SECTIONS, Panel

if TYPE_CHECKING:
    from wandb_workspaces.workspaces import Workspace

X_AXIS = "train/tokens"
REPORT_JOB = "report"
"""Job type of the run that carries the report's files: it is in the sweep's group and no arm."""
OPEN = ("reward", "evaluation", "stability")
COLUMNS = 3
MOST_RUNS = 1000  # W&B draws the first ten runs unless told otherwise, and a mean over ten of forty is no mean


def library() -> Any:
    """wandb_workspaces.workspaces, or a sentence."""
    try:
        import wandb_workspaces.workspaces as workspaces
    except ImportError as error:
        text = "needs wandb-workspaces, which is not installed; pip install 'grpo-lab[dashboards]'"
        raise UserError(f"--wandb   {text}") from error
    return workspaces


def build(panels: Sequence[Panel], sweep: str, entity: str, project: str, names: Iterable[str]) -> Workspace:
    """The workspace, not saved. sweep: name of its folder, W&B's group; names: metrics that the runs recorded.

    A panel of which nothing was recorded is left out.
    """
    ws = library()
    sections, names = [], set(names)
    for section in SECTIONS:
        drawn = [draw(p, p.recorded(names)) for p in panels if p.section == section and p.recorded(names)]
        if drawn:
            layout = ws.SectionLayoutSettings(columns=COLUMNS, rows=math.ceil(len(drawn) / COLUMNS))
            sections.append(ws.Section(name=section, panels=drawn, is_open=section in OPEN, layout_settings=layout))
    return ws.Workspace(
        entity=entity,
        project=project,
        name=sweep,
        sections=sections,
        settings=ws.WorkspaceSettings(x_axis=X_AXIS, max_runs=MOST_RUNS),
        runset_settings=ws.RunsetSettings(filters=arms_of(sweep), groupby=[ws.Metric("JobType")]),
    )


def arms_of(sweep: str) -> str:
    """The filter for the runs that the comparison counts: neither its tuning runs nor the one with the report."""
    sweep = group_name(sweep)
    if "'" in sweep or "\\" in sweep:
        raise UserError(f"--wandb   W&B cannot filter by the name {sweep}; call the sweep's folder otherwise")
    return f"Metric('Group') == '{sweep}' and Metric('JobType') != '{REPORT_JOB}' and Config('phase') == 'final'"


def draw(panel: Panel, names: Sequence[str], x: str | None = None) -> Any:
    """A panel as W&B draws it. x: its own x axis, where no workspace gives one."""
    library()
    import wandb_workspaces.reports.v2.interface as wr

    how: Any = {"groupby": "JobType", "groupby_aggfunc": "mean", "groupby_rangefunc": "minmax"}
    if panel.final:
        return wr.BarPlot(title=panel.title, metrics=[*names], range_x=panel.range, title_x=panel.label, **how)
    return wr.LinePlot(title=panel.title, x=x, y=[*names], range_y=panel.range, title_y=panel.label, **how)
