"""The registry of metric names."""

import re
from pathlib import Path

import pytest

from grpo.recording import metrics


def test_names_are_defined_once_and_find_themselves() -> None:
    names = [m.name for m in metrics.METRICS]
    assert len(names) == len(set(names))
    for metric in metrics.METRICS:
        example = metric.name.replace("<split>", "test").replace("<k>", "8").replace("<name>", "exact")
        assert metrics.find(example.replace("<term>", "kl")) is metric


@pytest.mark.parametrize(
    "name", ["validation/avg@4", "test/pass@16", "rewards/my_own/mean", "loss/policy", "time/step"]
)
def test_dynamic_names_are_known(name: str) -> None:
    metrics.check([name])


@pytest.mark.parametrize(
    "name", ["train/avg@4", "test/avg@0", "test/avg@x", "rewards/a/b/mean", "rewards//mean", "Reward"]
)
def test_other_names_are_not(name: str) -> None:
    assert metrics.find(name) is None


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"lenght/mean: no such metric .* did you mean length/mean\?"):
        metrics.check(["reward", "lenght/mean"])


def test_every_name_of_trl_points_to_one_of_ours() -> None:
    assert all(ours is None or ours in {m.name for m in metrics.METRICS} for _, ours, _ in metrics.TRL_NAMES)
    assert "| `frac_reward_zero_std` | `groups/zero_std` |" in metrics.trl_table()


def test_the_readme_table_has_a_row_of_three_cells_per_metric() -> None:
    rows = [line for line in metrics.readme_table().splitlines() if line.startswith("| `")]
    assert len(rows) == len(metrics.METRICS)
    assert all(row.replace("\\|", "").count("|") == 4 for row in rows)  # |π − μ| inside a cell is escaped


def test_every_metric_of_the_trainer_is_defined() -> None:
    package = Path(metrics.__file__).parents[1]
    source = "\n".join(path.read_text() for path in (package / "training").glob("*.py"))
    added = re.findall(r"""\.add_(?:mean|sum|max|min)\(\s*f?"([^"]+)\"""", source)
    assert len(set(added)) > 20
    internal = {"correction/square"}  # becomes correction/ess
    metrics.check(re.sub(r"{\w+}", "x", name) for name in set(added) - internal)
