"""The one list of panels: every metric is one we define, and what tells trouble is there."""

import pytest

from grpo.recording import metrics
from grpo.report.panels import PANELS, SECTIONS, of_section

OPEN = {"<k>": "8", "<name>": "exact", "<term>": "policy"}


def concrete(pattern: str) -> str:
    """A name that the pattern stands for."""
    for hole, word in OPEN.items():
        pattern = pattern.replace(hole, word)
    return pattern


@pytest.mark.parametrize("panel", PANELS, ids=[panel.title for panel in PANELS])
def test_a_panel_shows_metrics_that_are_defined(panel) -> None:
    assert panel.metrics
    assert panel.label
    for pattern in panel.metrics:
        assert metrics.find(concrete(pattern)) is not None, pattern
    low, high = panel.range
    assert low is None or high is None or low < high
    unit = metrics.find(concrete(panel.metrics[0])).unit  # pyright: ignore[reportOptionalMemberAccess]
    assert panel.range[1] is None or unit == "share" or panel.label.endswith("@k")


def test_every_section_has_panels_in_its_order() -> None:
    assert all(of_section(section) for section in SECTIONS)
    assert [p for section in SECTIONS for p in of_section(section)] == list(PANELS)


def test_no_two_panels_are_the_same() -> None:
    assert len({panel.title for panel in PANELS}) == len(PANELS)
    shown = [metric for panel in PANELS for metric in panel.metrics]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(
    "name",
    [
        "reward",
        "groups/zero_std",
        "validation/avg@4",
        "policy/entropy",
        "sampling/nll",
        "surrogate/clip_low",
        "surrogate/clip_high",
        "surrogate/weight_mean",
        "surrogate/weight_zero",
        "mismatch/abs_logp_mean",
        "grad_norm",
        "length/right",
        "length/wrong",
        "length/truncated",
        "speed/generated_tokens_per_s",
    ],
)
def test_the_diagnostics_are_there(name: str) -> None:
    assert [panel.recorded([name]) for panel in PANELS if panel.recorded([name])] == [[name]]


def test_an_open_name_takes_what_the_runs_recorded() -> None:
    (panel,) = [panel for panel in PANELS if panel.title == "Validation, mean of samples"]
    names = ["validation/avg@8", "validation/avg@4", "validation/avg@4/low", "test/avg@8", "validation/pass@4"]
    assert panel.recorded(names) == ["validation/avg@4", "validation/avg@8"]
    (panel,) = [panel for panel in PANELS if panel.title == "Reward functions"]
    assert panel.recorded(["rewards/exact/mean", "rewards/exact/calls", "reward"]) == ["rewards/exact/mean"]
