"""Preflight: when it stops sampling, what it measures, and the sentences that stop a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from grpo.data import Prompt, Rollout, Scores
from grpo.errors import UserError
from grpo.runs.dead import dead_of_beta, expected_dead, fit_beta
from grpo.runs.preflight import PreflightReport, preflight

NAN = float("nan")
Round = Sequence[Sequence[float]]  # rewards of each group


def sampler(rounds: Sequence[Round], *, cut: bool = False, same: bool = False, accuracy: bool = True) -> Callable:
    """Plays back rewards; prompt i of round r is "p<r>.<i>", or "p<i>" where every round asks the same."""

    def sample(number: int) -> tuple[list[Prompt], list[Rollout], Scores]:
        prompts, rollouts, rewards, groups = [], [], [], []
        for i, group in enumerate(rounds[number]):
            name = f"p{i}" if same else f"p{number}.{i}"
            prompts.append(Prompt(name, (1,), f"{i}+1="))
            for j, reward in enumerate(group):
                reason = "length" if cut else "stop"
                rollouts.append(Rollout(name, i, j, (5, 6), (-1.0, -1.0), (True, True), reason, f"a{j}", 0))
                rewards.append(reward)
                groups.append(i)
        column = torch.tensor(rewards, dtype=torch.float64)
        right = column if accuracy else torch.full_like(column, NAN)
        return prompts, rollouts, Scores(column[:, None], torch.ones(1), torch.tensor(groups), right)

    return sample


def measure(
    rounds: Sequence[Round], size: int = 4, clock: Callable[[], float] = lambda: 0.0, **how: bool
) -> PreflightReport:
    return preflight(sampler(rounds, **how), size, max_completion_tokens=64, clock=clock)


def refusal(report: PreflightReport) -> str:
    with pytest.raises(UserError) as error:
        report.enforce("strict")
    return str(error.value)


def test_it_samples_until_one_group_differs_and_uses_everything() -> None:
    dull, lively = [[0, 0, 0, 0]] * 2, [[0, 1, 1, 1], [0, 0, 0, 0]]
    report = measure([dull, dull, lively, dull])
    assert report.seen.rounds == 3
    assert report.seen.completions == 24  # 3 rounds × 2 groups × 4
    assert (report.seen.groups, report.seen.varied) == (6, 1)
    assert report.pass_rate == pytest.approx(3 / 24)
    assert report.reason is None
    assert report.recommended == 16  # below 20 %


def test_it_stops_at_64_groups_or_a_minute() -> None:
    dull = [[[0, 0]] * 16] * 99
    assert measure(dull, 2).seen.rounds == 4  # 64 × 2 completions / (16 × 2 per round)
    ticks = iter([0.0, 25.0, 50.0, 75.0, 75.0])
    report = measure(dull, 2, clock=lambda: next(ticks))
    assert (report.seen.rounds, report.seconds) == (3, 75.0)
    assert report.reason is not None
    assert measure([[]], 2).reason == "no completion was sampled; check the task's prompts and the rollout"


def test_the_line_of_the_start_table() -> None:
    # Per prompt (n, c) = (4, 4), (4, 2), (4, 1), (4, 0); mean c/n = (1 + .5 + .25 + 0)/4 = .4375 -> .44
    # spread of the means: deviations .5625 .0625 -.1875 -.4375, squares sum .546875, s = sqrt(.546875/3) = .42696
    # half width t(.975, 3) = 3.18245 × .42696/2 = .67939: the interval is cut to [0, 1]
    # G=2: [1 + (1+1)/6 + (0+3)/6 + 1]/4 = (1 + 1/3 + 1/2 + 1)/4 = .7083 -> 71; G=4: (1 + 0 + 0 + 1)/4 = 50
    report = measure([[[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]])
    assert report.lines() == [
        "pass rate 0.44 [0.00, 1.00] · dead groups expected at G = 2/4/8/16/32: 71/50/≤50/≤50/≤50 % "
        "· the chapter's table suggests 8",
        "≤ needs more samples",
    ]
    assert report.enforce("strict") == report.lines()


def test_a_prompt_that_is_asked_again_pools_its_counts() -> None:
    report = measure([[[0, 0], [1, 1]], [[0, 1], [1, 1]]], 2, same=True)
    # p0: (4, 1), p1: (4, 4). G=4: C(1,4)+C(3,4) = 0 for p0, 1 for p1: 50 %; counts of 2 alone could not say
    assert report.seen.counts == {"p0": [4, 1], "p1": [4, 4]}
    assert report.dead[4].share == pytest.approx(0.5)
    assert report.dead[4].how == "counted"


def test_dead_groups_are_counted_per_prompt_and_not_at_the_mean() -> None:
    counts = [(8, 8)] * 5 + [(8, 0)] * 5 + [(8, 4)] * 2
    dead = expected_dead(counts, (8,))[8]
    # ten of twelve prompts are dead at G = 8; at the mean p = (40 + 8)/96 = .5 it would be 2 × .5^8 = .8 %
    assert dead.share == pytest.approx(10 / 12)


def test_beta_binomial_beyond_the_samples() -> None:
    # Every c of 0..8 equally often is exactly Beta-binomial(8, 1, 1), so α = β = 1 and E[p^G + (1-p)^G] = 2/(G+1).
    counts = [(8, c) for c in range(9)] * 3
    assert fit_beta(counts) == pytest.approx((1.0, 1.0), rel=1e-2)
    assert dead_of_beta(1, 1, 16) == pytest.approx(2 / 17)
    dead = expected_dead(counts, (2, 8, 16, 32))
    assert [share.how for share in dead.values()] == ["counted", "counted", "fitted", "fitted"]
    assert dead[8].share == pytest.approx(2 / 9)  # c = 0 and c = 8 of nine values
    assert dead[16].share == pytest.approx(2 / 17, rel=1e-2)
    assert dead[32].share == pytest.approx(2 / 33, rel=2e-2)
    assert [str(share) for share in dead.values()] == ["67", "22", "~12", "~6"]


def test_the_fit_recovers_what_a_known_spread_gives_at_32() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.distributions.Beta(0.6, 1.4)
    torch.manual_seed(0)
    rates = p.sample((400,))
    wins = torch.bernoulli(rates[:, None].expand(-1, 8), generator=generator).sum(1).long().tolist()
    truth = (rates**32 + (1 - rates) ** 32).mean().item()
    fitted = expected_dead([(8, c) for c in wins], (32,))[32]
    assert fitted.share == pytest.approx(truth, abs=0.05)
    assert expected_dead([(8, c) for c in wins], (8,))[8].share > truth + 0.1  # the bound alone would be far off


@pytest.mark.parametrize("counts", [[(4, 4)] * 9, [(4, 0)] * 9, [(4, 2)] * 9, [(1, 1)] * 9 + [(1, 0)] * 9])
def test_the_fit_survives_extremes(counts: list[tuple[int, int]]) -> None:
    dead = expected_dead(counts, (2, 4, 8, 16, 32))
    shares = [share.share for share in dead.values()]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares, reverse=True)


SAMPLES = (
    '\n  "0+1=" → "a0" · 2 tokens, {end} · reward {reward}'
    '\n  "1+1=" → "a0" · 2 tokens, {end} · reward {reward}'
    '\n  "2+1=" → "a0" · 2 tokens, {end} · reward {reward}'
)


def test_all_cut_is_a_reason_to_stop() -> None:
    report = measure([[[0, 0, 0, 0]] * 64], cut=True)
    assert refusal(report) == (
        "preflight   nothing can be learned: all 256 completions (64 groups of 4) were cut at the limit of 64 tokens "
        "and no group's rewards differ; say max_completion_tokens=128 (preflight=warn goes on all the same)"
        + SAMPLES.format(end="cut", reward=0)
    )


@pytest.mark.parametrize(
    ("reward", "advice"),
    [
        (0, "take an easier task, a stronger model or a larger group_size, or check how the reward reads the answers"),
        (1, "the policy solves the task already: take a harder one"),
    ],
)
def test_one_reward_for_everything_is_a_reason_to_stop(reward: float, advice: str) -> None:
    report = measure([[[reward] * 4] * 64])
    assert refusal(report) == (
        f"preflight   nothing can be learned: all 256 completions (64 groups of 4) got the reward {reward}; {advice} "
        "(preflight=warn goes on all the same)" + SAMPLES.format(end="ended", reward=reward)
    )
    warned = report.enforce("warn")
    assert warned[0].startswith("warning: nothing can be learned: all 256 completions")
    assert len(warned) == 1 + 3 + len(report.lines())


def test_equal_rewards_inside_every_group_are_a_reason_to_stop() -> None:
    report = measure([[[0, 0], [1, 1], [0, 0], [0.1 + 0.2, 0.3]] * 16], 2)  # 0.1 + 0.2 differs from 0.3 by 6e-17
    assert report.reason is not None
    assert report.reason.startswith("in none of 64 groups of 2 do two rewards differ (rewards 64 × 0, 32 × 1, 16 × 0.3")


def test_no_score_at_all_is_a_reason_to_stop() -> None:
    report = measure([[[NAN, NAN]] * 64], 2)
    assert report.reason == (
        "none of 128 completions (64 groups of 2) got a score (every reward function said None); "
        "check the reward and its columns"
    )
    assert report.lines()[0].startswith("pass rate unknown")


def test_one_scored_sample_in_a_group_is_no_signal() -> None:
    assert measure([[[1, NAN], [NAN, 0]] * 32], 2).seen.varied == 0


def test_rewards_without_a_right_and_wrong() -> None:
    report = measure([[[0.2, 0.7], [0.1, 0.1]]], 2, accuracy=False)
    assert report.reason is None
    assert report.lines() == ["pass rate unknown (no reward says what is right) · 1 of 2 groups vary"]


def test_right_is_what_reaches_right_at() -> None:
    sample = sampler([[[0.2, 0.5], [0.9, 0.4]]])
    report = preflight(sample, 2, max_completion_tokens=64, right_at=0.5)
    assert report.pass_rate == pytest.approx(2 / 4)  # 0.5 and 0.9


def test_many_cut_completions_are_a_warning() -> None:
    report = measure([[[0, 1, 0, 0]]], cut=True)
    assert (
        report.enforce("strict")[-1] == "100 % of the completions were cut at 64 tokens; say max_completion_tokens=128"
    )


def test_an_error_of_the_reward_is_passed_on() -> None:
    def sample(_: int) -> tuple:
        raise UserError("reward.exact   returned 3 scores for 8 completions")

    with pytest.raises(UserError, match=r"^reward\.exact   returned 3 scores for 8 completions$"):
        preflight(sample, 4, max_completion_tokens=64)
