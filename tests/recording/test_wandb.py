"""W&B through Lightning's logger: modes, and an offline run read back from its file."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import wandb_offline

from grpo.errors import UserError
from grpo.recording import wandb as ours
from grpo.recording.recorder import Recorder

SAMPLE = {
    "prompt_id": "a",
    "group": 0,
    "sample": 1,
    "prompt": "37+5=",
    "completion": "42 \ud800 二",
    "token_ids": [3, 4],
    "logp_old": [-0.5, -0.25],
    "logp_rollout": [-0.5, -0.25],
    "weight": [0.5, 1.5],
    "advantage": 1.5,
    "rewards": {"exact": 1.0, "format": math.nan},
    "finish": "stop",
}


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = ("API_KEY", "MODE", "BASE_URL", "IDENTITY_TOKEN_FILE", "SWEEP_ID", "RUN_ID", "PROJECT", "ENTITY")
    for name in (*(f"WANDB_{word}" for word in said), "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def start(folder: Path, seed: int = 0, group: str | None = "sweep-1", **resolved: object):
    folder.mkdir(parents=True, exist_ok=True)
    node = SimpleNamespace(kind="wandb", mode="auto", project="grpo", entity=None, tags=["mine"])
    facts = {"name": "dapo s0", "group": group, "job_type": "dapo", "tags": ["kl=none", "mine", "", "x" * 70]}
    choices = {"seed": seed, "arm": None, "surrogate": {"high": 0.28}, "max_grad_norm": math.inf, **resolved}
    return ours.make_logger(node, folder, resolved=choices, **facts)


def offline_parts(folder: Path) -> list[wandb_offline.OfflineRun]:
    return [wandb_offline.read_finished(part) for part in sorted((folder / "wandb").glob("offline-run-*"))]


def curves_of(part: wandb_offline.OfflineRun) -> list:
    """The artifacts of curves (W&B keeps every table as an artifact too)."""
    return [artifact for artifact in part.artifacts if artifact.type == "curves"]


def test_an_offline_run_holds_metrics_config_table_curves_and_summary(tmp_path: Path) -> None:
    logger = start(tmp_path)
    assert ours.describe(logger).startswith("W&B offline (no key): wandb sync ")
    assert Path(ours.describe(logger).rsplit(" ", 1)[1]).is_dir()
    recorder = Recorder(tmp_path, logger)
    recorder.metrics(0, {"validation/greedy": 0.125})
    recorder.metrics(1, {"reward": 0.5, "loss": math.nan, "tokens/generated": 100})
    recorder.metrics(1, {"validation/greedy": 0.25})
    recorder.samples(1, [SAMPLE])
    recorder.metrics(2, {"reward": 0.75, "tokens/generated": 200})
    recorder.samples(2, [SAMPLE])
    recorder.metrics(2, {"test/avg@8": 0.7})
    recorder.summary({"test/avg@8": 0.7})
    draw_a_dot(tmp_path / "curves.png")
    with pytest.raises(RuntimeError, match="still open in this process"):
        start(tmp_path / "other")
    recorder.close("done")
    recorder.close("done")

    (part,) = offline_parts(tmp_path)
    assert part.run["run_group"] == "sweep-1"
    assert part.run["job_type"] == "dapo"
    assert part.run["tags"] == ["mine", "arm=dapo", "seed=0", "kl=none", "x" * 64]
    assert (part.config["arm"], part.config["seed"], part.config["surrogate"]) == ("dapo", 0, {"high": 0.28})
    assert part.config["max_grad_norm"] == "inf"  # JSON has no such number
    assert part.axes["*"] == "train/step"
    rewards = [row for row in part.history if "reward" in row]
    assert [(r["train/step"], r["train/tokens"], r["reward"]) for r in rewards] == [(1, 100, 0.5), (2, 200, 0.75)]
    assert all(r["train/seconds"] == r["time/elapsed"] > 0 for r in rewards)
    assert math.isnan(rewards[0]["loss"])
    evaluations = [row for row in part.history if "validation/greedy" in row or "test/avg@8" in row]
    assert [(r["train/step"], r["train/tokens"]) for r in evaluations] == [(0, 0), (1, 100), (2, 200)]
    assert all(r["train/seconds"] == r["time/elapsed"] for r in evaluations)
    assert {"samples/step_00001/nrows", "samples/step_00002/nrows", "curves/path"} <= set().union(*part.history)
    assert (part.summary["test/avg@8"], part.summary["status"], part.exit_code) == (0.7, "done", 0)
    (curves,) = curves_of(part)
    assert curves.name == f"curves-{part.run['run_id']}"
    (picture,) = curves.manifest.contents
    assert (picture.path, Path(picture.local_path).parent) == ("curves.png", next((tmp_path / "wandb").glob("off*")))
    assert Path(picture.local_path).read_bytes() == (tmp_path / "curves.png").read_bytes()
    table = next((tmp_path / "wandb").glob("offline-run-*/files/media/table/samples/step_00001*.json"))
    content = json.loads(table.read_text())
    row = dict(zip(content["columns"], content["data"][0], strict=True))
    assert (row["completion"], row["tokens"], row["weight"], row["exact"]) == ("42 ? 二", 2, 1.0, 1.0)


def test_a_resumed_offline_run_has_one_id_and_the_whole_history(tmp_path: Path) -> None:
    first = Recorder(tmp_path, start(tmp_path))
    for step in range(4):
        first.metrics(step, {"reward": step / 10, "tokens/generated": 100 * step})
    first.samples(1, [SAMPLE])
    first.samples(3, [SAMPLE])
    first.close("failed")
    logger = start(tmp_path)
    assert ours.describe(logger).endswith("(holds the whole run; its earlier parts need no upload)")
    second = Recorder(tmp_path, logger)
    second.cut_back(2)
    second.metrics(3, {"reward": 0.3, "tokens/generated": 300})
    second.metrics(3, {"test/greedy": 0.5})
    second.samples(3, [SAMPLE])
    draw_a_dot(tmp_path / "curves.png")
    second.close("stopped")
    failed, whole = offline_parts(tmp_path)
    assert failed.run["run_id"] == whole.run["run_id"]
    assert (failed.exit_code, whole.exit_code) == (1, 0)
    assert [row["train/step"] for row in whole.history if "reward" in row] == [0, 1, 2, 3]
    assert [row["train/tokens"] for row in whole.history if "test/greedy" in row] == [300]
    assert {"samples/step_00001/nrows", "samples/step_00003/nrows", "curves/path"} <= set().union(*whole.history)
    assert (len(curves_of(failed)), len(curves_of(whole))) == (0, 1)


def test_jobs_of_one_process_are_runs_of_their_own_and_a_failure_is_marked(tmp_path: Path) -> None:
    for seed, status in ((1, "done"), (2, "failed"), (3, "done")):
        recorder = Recorder(tmp_path / str(seed), start(tmp_path / str(seed), seed))
        recorder.metrics(1, {"reward": seed / 10})
        recorder.close(status)
    parts = [offline_parts(tmp_path / str(seed))[0] for seed in (1, 2, 3)]
    assert len({part.run["run_id"] for part in parts}) == 3
    assert [part.exit_code for part in parts] == [0, 1, 0]
    assert [[row["reward"] for row in part.history] for part in parts] == [[0.1], [0.2], [0.3]]
    assert [part.config["seed"] for part in parts] == [1, 2, 3]
    assert {(part.run["run_group"], part.run["job_type"]) for part in parts} == {("sweep-1", "dapo")}


@pytest.mark.parametrize(
    ("inside", "phase"), [("dapo/seed=0", "final"), ("dapo/tune/lr=0.0001/seed=100", "tune"), ("tune/seed=0", "final")]
)
def test_tuning_runs_can_be_told_from_repetitions(inside: str, phase: str, tmp_path: Path) -> None:
    logger = start(tmp_path / inside, sweep=str(tmp_path))
    assert logger.experiment.config["phase"] == phase
    assert f"phase={phase}" in logger.experiment.tags
    ours.finish(logger, "done", {}, tmp_path / "curves.png")


def test_where_online_was_only_assumed_a_refused_key_means_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "short")
    recorder = Recorder(tmp_path, start(tmp_path))
    assert "W&B cannot be used" in caplog.text
    recorder.metrics(1, {"reward": 1.0})
    recorder.close("done")
    assert [row["reward"] for row in offline_parts(tmp_path)[-1].history] == [1.0]


def test_long_names_stay_different() -> None:
    first, second = (ours.shorten("algo=dapo," * 9 + end, 64) for end in "ab")
    assert (len(first), len(second)) == (64, 64)
    assert first != second
    assert first.startswith("algo=dapo,algo=dapo,")
    assert ours.group_name("clip_high-3f9c21ab") == "clip_high-3f9c21ab"
    assert len(ours.group_name("x" * 200)) == 128


def test_under_an_agent_the_run_is_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    earlier = start(tmp_path)
    earlier_id = earlier.experiment.id
    ours.finish(earlier, "done", {}, tmp_path / "curves.png")
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1w2")
    monkeypatch.setenv("WANDB_RUN_ID", "a9b8c7d6")
    logger = start(tmp_path, group=None)
    assert ours.describe(logger).endswith(" · the agent of W&B sweep s1w2 hears nothing of it")  # it is offline
    ours.finish(logger, "done", {}, tmp_path / "curves.png")
    groups = {part.run["run_id"]: part.run["run_group"] for part in offline_parts(tmp_path)}  # in no order: one second
    assert groups == {earlier_id: "sweep-1", "a9b8c7d6": "s1w2"}
    assert f"the agent of W&B sweep s1w2 wants this run as a9b8c7d6; the W&B run {earlier_id}" in caplog.text
    monkeypatch.delenv("WANDB_SWEEP_ID")
    monkeypatch.setenv("WANDB_RUN_ID", "of-another-job")
    continued = start(tmp_path)  # by hand, later: the run that the agent opened goes on
    assert continued.experiment.id == "a9b8c7d6"
    ours.finish(continued, "done", {}, tmp_path / "curves.png")


class Memory:
    """A logger whose server already holds steps up to `known`."""

    def __init__(self, known: int) -> None:
        summary = {"train/step": known}
        self.experiment = SimpleNamespace(summary=summary, resumed=True, offline=False, finish=lambda exit_code: None)
        self.steps: list[int] = []

    def log_metrics(self, values: dict, step: int) -> None:
        assert values["train/step"] == step
        self.steps.append(step)

    def log_table(self) -> None: ...


def test_a_resumed_online_run_is_not_sent_a_step_twice_and_misses_none(tmp_path: Path) -> None:
    first = Recorder(tmp_path)
    for step in range(8):  # killed at 7, last checkpoint at 5
        first.metrics(step, {"reward": 0.0})
    for known, sent in ((7, [8]), (3, [4, 5, 6, 7, 8])):  # 3: the kill came before the upload
        logger = Memory(known)
        recorder = Recorder(tmp_path, logger)  # pyright: ignore[reportArgumentType]
        recorder.cut_back(5)
        for step in (6, 7, 8):
            recorder.metrics(step, {"reward": 0.0})
        assert logger.steps == sent


def test_mode_auto_is_online_only_with_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ours.choose_mode("auto") == "offline"
    (tmp_path / "home").mkdir()
    entry = tmp_path / "home" / ".netrc"
    entry.write_text("machine api.wandb.ai\n  login user\n  password k\n")
    entry.chmod(0o600)
    assert ours.choose_mode("auto") == "online"
    entry.unlink()
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    assert ours.choose_mode("auto") == "online"
    assert ours.choose_mode("offline") == "offline"
    monkeypatch.setenv("WANDB_MODE", "dryrun")
    assert ours.choose_mode("auto") == "offline"
    assert ours.choose_mode("online") == "online"


@pytest.mark.parametrize("wish", ["", "OFFLINE"])
def test_an_environment_that_wandb_itself_refuses(wish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", wish)
    logger = start(tmp_path)
    assert logger.experiment.offline
    ours.finish(logger, "done", {}, tmp_path / "curves.png")


def test_online_without_a_key_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"logger.mode   online needs a W&B key; run `wandb login`, or choose"):
        ours.choose_mode("online")


def test_no_logger(tmp_path: Path) -> None:
    node = SimpleNamespace(kind="none")
    assert ours.make_logger(node, tmp_path, name="", group=None, job_type="", tags=[], resolved={}) is None
    assert ours.describe(None) == "W&B off"
    assert not list(tmp_path.iterdir())


def draw_a_dot(path: Path) -> None:
    """The smallest PNG that PIL writes."""
    from PIL import Image

    Image.new("RGB", (1, 1)).save(path)
