"""One small run as W&B gets it, read back from its offline file."""

import json
from pathlib import Path

import pytest
import wandb_offline
from tests.helpers import lines, run

from grpo.config.hashing import algorithm_hash, config_hash
from grpo.config.overrides import word
from grpo.config.schema import RunConfig

AXES = ("train/step", "train/tokens", "train/seconds")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of a sweep, asked for twice."""
    sweep = tmp_path_factory.mktemp("sweeps") / "clip_high-3f9c21ab"
    place = (word("sweep", str(sweep)), "arm=wide", word("run_dir", str(sweep / "wide/seed=3")), "resume=auto")
    small = ("max_steps=2", "samples_every=1", "checkpoint.export=false", "algo=dapo", "seed=3", "log_every=1")
    words = ("logger=wandb", "logger.mode=offline", "logger.tags=[mine]", *small, *place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_DATA_DIR", str(tmp_path_factory.mktemp("data")))  # W&B's copies of tables
        assert run(sweep, *words)[0] == 0
        assert run(sweep, *words)[0] == 0
    return sweep / "wide" / "seed=3"


@pytest.fixture(scope="module")
def part(folder: Path) -> wandb_offline.OfflineRun:
    (only,) = (folder / "wandb").glob("offline-run-*")  # the second command found nothing to do
    return wandb_offline.read_finished(only)


def test_the_page_groups_by_arm_and_shows_the_spread_over_seeds(part: wandb_offline.OfflineRun) -> None:
    found = (part.run["run_group"], part.run["job_type"], part.run["display_name"])
    assert found == ("clip_high-3f9c21ab", "wide", "wide-s3")
    assert {"mine", "arm=wide", "seed=3", "phase=final", "algo=dapo", "kl=none"} <= set(part.run["tags"])
    assert part.exit_code == 0


def test_config_holds_every_choice_resolved(folder: Path, part: wandb_offline.OfflineRun) -> None:
    from grpo.config.check import read

    resolved = read(folder / "config.yaml")[1]
    assert set(RunConfig.model_fields) <= set(part.config)
    assert part.config["algorithm_hash"] == algorithm_hash(resolved)
    assert part.config["config_hash"] == config_hash(resolved)
    assert part.config["optimizer"]["lr"] == resolved["optimizer"]["lr"] == 3e-4
    assert part.config["surrogate"]["high"] == 0.28
    assert (part.config["seed"], part.config["arm"], part.config["phase"]) == (3, "wide", "final")
    assert "${" not in json.dumps(part.config)


def test_every_number_can_be_drawn_against_steps_tokens_and_seconds(
    folder: Path, part: wandb_offline.OfflineRun
) -> None:
    written = lines(folder / "metrics.jsonl")
    sent = [row for row in part.history if row.keys() & {"reward", "validation/greedy", "test/greedy"}]
    assert len(sent) == len(written) == 4  # untrained, two steps, test
    for told, row in zip(sent, written, strict=True):
        assert {name: told[name] for name in row if name not in ("v", "step")} == {
            name: value for name, value in row.items() if name not in ("v", "step")
        }
        assert all(axis in told for axis in AXES)
    tokens = [row["tokens/generated"] for row in written if "tokens/generated" in row]
    assert [row["train/tokens"] for row in sent] == [0, *tokens, tokens[-1]]
    assert [row["train/step"] for row in sent] == [0, 1, 2, 2]
    assert [row["train/seconds"] for row in sent] == sorted(row["train/seconds"] for row in sent)
    assert part.axes["*"] == "train/step"


def test_summary_tables_and_curves(folder: Path, part: wandb_offline.OfflineRun) -> None:
    last = lines(folder / "metrics.jsonl")[-1]
    tested = {name: value for name, value in last.items() if name.startswith("test/")}
    assert {"test/avg@2", "test/greedy", "test/length"} <= set(tested)
    assert {name: part.summary[name] for name in tested} == tested
    assert part.summary["status"] == "done"
    keys = set().union(*part.history)
    assert {"samples/step_00001/nrows", "samples/step_00002/nrows", "curves/path"} <= keys
    assert [artifact.type for artifact in part.artifacts].count("curves") == 1
