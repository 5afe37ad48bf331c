"""The W&B workspace and report of a sweep, read as the JSON that would be sent; nothing leaves the machine."""

import json
from pathlib import Path
from typing import Any

import pytest
import wandb
import wandb_workspaces.reports.v2.interface as reports
import wandb_workspaces.workspaces.interface as interface
import wandb_workspaces.workspaces.internal as views
from PIL import Image
from tests.recording import wandb_offline

from grpo.errors import UserError
from grpo.report import wandb_report, workspace
from grpo.report.panels import PANELS, SECTIONS
from grpo.sweep import manifest
from grpo.sweep.manifest import Arm, Job, Manifest

NAMES = [metric.replace("<k>", "8").replace("<name>", "exact").replace("<term>", "policy")
         for panel in PANELS for metric in panel.metrics]  # fmt: skip
SWEEP = "clip_high-3f9c21ab"
GROUP = {"section": "run", "name": "group"}


def spec(names: list[str]) -> dict[str, Any]:
    built = workspace.build(PANELS, SWEEP, "team", "grpo", names)
    return built._spec["spec"]["section"]


def test_the_workspace_has_every_panel_of_the_list_in_its_section() -> None:
    sections = spec(NAMES)["panelBankConfig"]["sections"]
    assert [section["name"] for section in sections] == list(SECTIONS)
    drawn = [
        (section["name"], panel["config"]["chartTitle"], panel["config"]["metrics"], panel["viewType"])
        for section in sections
        for panel in section["panels"]
    ]
    assert drawn == [
        (p.section, p.title, p.recorded(NAMES), "Bar Chart" if p.final else "Run History Line Plot") for p in PANELS
    ]
    assert [section["name"] for section in sections if section["isOpen"]] == ["reward", "evaluation", "stability"]
    for section in sections:  # no panel is hidden on a second page
        flow = section["flowConfig"]
        assert flow["columnsPerPage"] * flow["rowsPerPage"] >= len(section["panels"])


def test_a_line_is_an_arms_mean_between_its_seeds_against_tokens() -> None:
    section = spec(NAMES)
    panels = [panel["config"] for part in section["panelBankConfig"]["sections"] for panel in part["panels"]]
    assert {(p["groupBy"], p["groupAgg"], p["groupArea"]) for p in panels} == {("jobType", "mean", "minmax")}
    assert not [p for p in panels if "xAxis" in p]  # the workspace's axis holds for all of them
    settings = section["settings"]
    assert (settings["xAxis"], settings["xAxisActive"], settings["smoothingActive"]) == ("train/tokens", True, False)
    assert settings["maxRuns"] >= 1000
    by_title = {p["chartTitle"]: p for p in panels}
    assert (by_title["Training accuracy"]["yAxisMin"], by_title["Training accuracy"]["yAxisMax"]) == (0.0, 1.0)
    assert by_title["Gradient norm"]["yAxisMin"] == 0.0
    assert "yAxisMax" not in by_title["Gradient norm"]
    assert by_title["Gradient norm"]["yAxisTitle"] == "L2 norm before clipping"


def test_only_the_sweeps_own_final_runs_are_shown_by_arm() -> None:
    (runs,) = spec(NAMES)["runSets"]
    filters = [(f["key"], f["op"], f["value"]) for f in runs["filters"]["filters"]]
    assert filters == [
        (GROUP, "=", SWEEP),
        ({"section": "run", "name": "jobType"}, "!=", "report"),
        ({"section": "config", "name": "phase"}, "=", "final"),
    ]
    assert runs["grouping"] == [{"section": "run", "name": "jobType"}]


def test_what_no_run_recorded_is_left_out_and_open_names_are_filled_in() -> None:
    sections = spec(["reward", "validation/avg@4", "validation/avg@8", "mine"])["panelBankConfig"]["sections"]
    shown = {panel["config"]["chartTitle"]: panel["config"]["metrics"] for s in sections for panel in s["panels"]}
    assert shown == {"Reward": ["reward"], "Validation, mean of samples": ["validation/avg@4", "validation/avg@8"]}


def test_a_name_that_a_filter_cannot_hold_is_a_sentence() -> None:
    with pytest.raises(UserError, match="W&B cannot filter by the name bob's"):
        workspace.build(PANELS, "bob's", "team", "grpo", NAMES)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of two arms with one run each, and a tuning run."""
    folder = tmp_path / SWEEP
    jobs = tuple(
        Job(arm=arm, phase=phase, seed=0, folder=where, overrides=(), config_hash="0")  # pyright: ignore
        for arm, phase, where in (
            ("low", "final", "low/seed=0"),
            ("high", "final", "high/seed=0"),
            ("high", "tune", "high/tune/lr=0.1/seed=100"),
        )
    )
    for job, metric in zip(jobs, ("reward", "kl/ref", "loss"), strict=True):
        (folder / job.folder).mkdir(parents=True)
        (folder / job.folder / "metrics.jsonl").write_text(json.dumps({"v": 1, "step": 1, metric: 0.5}) + "\n")
    arms = (Arm("low", ()), Arm("high", ()))
    manifest.write(folder, Manifest("clip_high", "question", "3f9c21ab", {}, (), arms, jobs, expected=3))
    return folder


@pytest.fixture
def pages(tmp_path: Path) -> dict[str, Path]:
    """A report as `grpo.report` writes it."""
    (tmp_path / "report" / "figures").mkdir(parents=True)
    page, table = tmp_path / "report" / "report.md", "| arm | test/avg@8 |\n|---|---:|\n| low | 0.71 |"
    page.write_text(f"# Claim\n\n## Arms\n\n{table}\n\n## Every seed\n\n| other |\n|---|\n")
    (tmp_path / "report" / "figures" / "forest.png").write_bytes(b"PNG")
    return {"report.md": page, "figures": tmp_path / "report" / "figures"}


class Server:
    """What W&B is asked, and answers as it would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.saved: list[dict[str, Any]] = []
        monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
        monkeypatch.setattr(wandb_report, "_upload", lambda folder, board, pages: "https://w/run")
        for module in (reports, views):
            monkeypatch.setattr(module, "execute_graphql", self.answer)
        api = type("Api", (), {"projects": lambda self, entity: [type("Project", (), {"name": "grpo"})]})
        monkeypatch.setattr(reports, "_get_api", api)
        monkeypatch.setattr(views.wandb, "Api", api)
        monkeypatch.setattr(interface, "get_app_url", lambda api: "https://w")
        monkeypatch.setattr(reports, "get_app_url", lambda api: "https://w")

    def answer(self, api: Any, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "ProjectInternalId" in query:
            return {"project": {"internalId": "7"}}
        self.saved.append(variables)
        made = variables.get("id") or f"new-{len(self.saved)}"
        project = {"id": "1", "name": variables["projectName"], "entityName": variables["entityName"]}
        view = {"id": made, "name": variables["name"], "project": project, "spec": variables["spec"]}
        return {"upsertView": {"view": {**view, "displayName": variables["displayName"], "description": ""}}}


def test_a_second_push_updates_what_the_first_made(
    sweep: Path, pages: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(monkeypatch)
    first = wandb_report.push(sweep, "team/grpo", pages, ["high is better than low"], "We train.")
    again = wandb_report.push(sweep, "team/grpo", pages, ["high is better than low"], "We train.")
    assert first == again
    assert [(sent.get("id"), sent["type"]) for sent in server.saved] == [
        (None, "project-view"),
        (None, "runs"),
        ("new-1", "project-view"),
        ("new-2", "runs"),
    ]
    assert server.saved[0]["name"] == server.saved[2]["name"] != ""
    kept = json.loads((sweep / "wandb.json").read_text())["team/grpo"]
    assert (kept["workspace"]["id"], kept["report"]["id"]) == ("new-1", "new-2")
    assert first == ["https://w/run", kept["workspace"]["url"], kept["report"]["url"]]
    titles = [
        panel["config"]["chartTitle"]
        for section in json.loads(server.saved[0]["spec"])["section"]["panelBankConfig"]["sections"]
        for panel in section["panels"]
    ]
    assert titles == ["Reward", "KL to the reference"]  # what the tuning run recorded asks for no panel


def test_the_report_says_the_verdict_first(
    sweep: Path, pages: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(monkeypatch)
    wandb_report.push(sweep, "team/grpo", pages, ["high is better than low", "mid is undecided"], "We train.")
    sent = server.saved[1]
    blocks = json.loads(sent["spec"])["blocks"]
    assert (sent["displayName"], sent["description"]) == (SWEEP, "high is better than low")
    text = json.dumps(blocks)
    order = ["high is better than low", "mid is undecided", "| low | 0.71 |", "Differences to", "Reward", "We train."]
    assert sorted(order, key=text.index) == order
    assert "| other |" not in text
    grids = [block["metadata"] for block in blocks if block["type"] == "panel-grid"]
    shown = [[panel["config"] for panel in grid["panelBankSectionConfig"]["panels"]] for grid in grids]
    assert shown[0][0]["mediaKeys"] == ["forest"]
    assert [panel["metrics"] for grid in shown[1:] for panel in grid] == [["reward"], ["kl/ref"]]
    assert {panel["xAxis"] for grid in shown[1:] for panel in grid} == {"train/tokens"}
    carrier, arms = ([f["value"] for f in grid["runSets"][0]["filters"]["filters"]] for grid in grids[:2])
    assert (carrier, arms) == ([SWEEP, "report"], [SWEEP, "report", "final"])


def test_panels_of_a_report_do_not_cover_each_other() -> None:
    for _, drawn in wandb_report.grids(set(NAMES)):
        cells = {(p.layout.x + i, p.layout.y + j) for p in drawn for i in range(8) for j in range(6)}
        assert len(cells) == 48 * len(drawn)
        assert max(x for x, _ in cells) < 24


def test_the_pages_are_an_artifact_of_a_run_that_is_no_arm(
    sweep: Path, pages: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    init = wandb.init
    monkeypatch.setattr(wandb, "init", lambda **said: init(**{**said, "mode": "offline"}))
    Image.new("RGB", (2, 2)).save(pages["figures"] / "forest.png")
    for _ in range(2):
        wandb_report._upload(sweep, workspace.build(PANELS, SWEEP, "team", "grpo", NAMES), pages)
    parts = [wandb_offline.read_finished(part) for part in sorted((sweep / "wandb").glob("offline-run-*"))]
    assert len({part.run["run_id"] for part in parts}) == 1  # a second push goes on with the same run
    run = parts[0].run
    assert (run["run_group"], run["job_type"], run["project"]) == (SWEEP, "report", "grpo")
    (artifact,) = parts[0].artifacts
    assert artifact.type == "report"
    assert sorted(file.path for file in artifact.manifest.contents) == ["figures/forest.png", "report.md"]
    assert "forest/path" in set().union(*parts[0].history)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [("grpo", "--wandb   takes ENTITY/PROJECT"), ("team/grpo/x", "takes ENTITY/PROJECT"), ("/grpo", "takes ENTITY")],
)
def test_a_wrong_place_is_a_sentence(place: str, sentence: str, sweep: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        wandb_report.push(sweep, place, {}, [], "")


def test_without_a_key_the_local_report_stays(sweep: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        UserError, match=r"--wandb   needs a W&B key; run `wandb login`. The report on disk is complete"
    ):
        wandb_report.push(sweep, "team/grpo", {}, [], "")


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb_workspaces.workspaces", None)
    with pytest.raises(
        UserError, match=r"wandb-workspaces, which is not installed; pip install 'grpo-lab\[dashboards\]'"
    ):
        workspace.library()


def test_a_refusal_is_one_sentence_and_keeps_what_was_made(
    sweep: Path, pages: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(monkeypatch)
    save = reports.Report.save

    def refuse(self: Any) -> None:
        raise Exception("permission\n denied")

    monkeypatch.setattr(reports.Report, "save", refuse)
    with pytest.raises(UserError, match=r"--wandb   W&B did not take it \(permission denied\)"):
        wandb_report.push(sweep, "team/grpo", pages, [], "")
    with pytest.raises(UserError, match=r"if its workspace or report was deleted there, remove .*wandb\.json"):
        wandb_report.push(sweep, "team/grpo", pages, [], "")
    monkeypatch.setattr(reports.Report, "save", save)
    wandb_report.push(sweep, "team/grpo", pages, [], "")
    assert [sent.get("id") for sent in server.saved] == [None, "new-1", "new-1", None]  # one workspace, then its report


def test_what_wandb_will_not_show_is_said(sweep: Path) -> None:
    (sweep / "low/seed=0/wandb/offline-run-20260101_000000-a").mkdir(parents=True)
    later = sweep / "low/seed=0/wandb/offline-run-20260102_000000-a"
    later.mkdir()
    (first, second) = wandb_report.not_there(sweep)
    assert first == f"1 of 2 runs were recorded offline and are not uploaded: wandb sync {later}"
    assert second == "1 of 2 runs were made with logger=none; W&B has nothing of them"
    (later / "run-a.wandb.synced").touch()
    (sweep / "high/seed=0/wandb/run-20260102_000000-b").mkdir(parents=True)
    assert wandb_report.not_there(sweep) == []


def test_a_folder_that_is_no_sweep_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    with pytest.raises(UserError, match="is no sweep"):
        wandb_report.push(tmp_path, "team/grpo", {}, [], "")


def test_copied_runs_are_not_taken_for_silent_ones(sweep: Path) -> None:
    """A copy leaves the wandb folder behind, and so has no more of it than a run with logger=none."""
    (sweep / "low/seed=0/wandb/run-20261202_000000-abc").mkdir(parents=True)
    (sweep / "high/seed=0/reused.json").write_text('{"v": 1, "from": "/elsewhere"}')
    assert wandb_report.not_there(sweep) == ["1 runs were copied from equal ones; on W&B they stay where those are"]
