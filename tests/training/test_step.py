"""A whole step: sampling and refilling, minibatches, counts, non-finite numbers, schedules."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from grpo.algorithm import filter, kl, overlong, shaping
from grpo.errors import UserError
from grpo.training.batch import minibatches
from grpo.training.schedule import learning_rate
from tests.conftest import make_llama
from tests.training import worlds


def test_minibatches_are_whole_groups() -> None:
    groups = torch.tensor([5, 5, 3, 3, 9, 9, 9, 1])
    first, second = minibatches(groups, 2, epoch=0, seed=0, step=0)
    assert first.tolist() == [0, 1, 2, 3]
    assert second.tolist() == [4, 5, 6, 7]
    later = minibatches(groups, 2, epoch=1, seed=0, step=0)
    assert sorted(torch.cat(later).tolist()) == list(range(8))
    for part in later:
        inside = set(groups[part].tolist())
        assert int(sum(groups == g for g in inside).sum()) == len(part)
    # Fewer groups than minibatches: some are empty, none is split.
    assert [len(part) for part in minibatches(torch.tensor([1, 1]), 3, epoch=0, seed=0, step=0)] == [0, 2, 0]


def test_dynamic_sampling_refills_to_the_full_number_of_informative_groups() -> None:
    made = worlds.module(make_llama(), parts=worlds.objective(filter=filter.MixedGroups(max_rounds=20)))
    experience = worlds.sampled(made)
    assert len({r.group for r in experience.rollouts}) == 6
    assert experience.rounds > 1
    assert not experience.exhausted
    for group in {r.group for r in experience.rollouts}:
        accuracy = experience.scores.accuracy[experience.scores.groups == group]
        assert 0 < float(accuracy[~accuracy.isnan()].mean()) < 1
    # Every generated token counts, and only those of kept groups are not discarded.
    assert experience.generated_tokens == sum(len(r.token_ids) for r in experience.sampled)
    kept = sum(len(r.token_ids) for r in experience.rollouts)
    assert experience.discarded_tokens == experience.generated_tokens - kept > 0
    assert len({r.prompt_id for r in experience.sampled}) * 4 == len(experience.sampled)


@pytest.mark.parametrize(("policy", "left"), [("train", 0), ("skip", 0)])
def test_when_no_group_is_informative(policy: str, left: int) -> None:
    class Wrong(worlds.EvenSum):
        def score(self, prompts, rollouts, **_):
            scores = super().score(prompts, rollouts)
            zero = torch.zeros_like(scores.rewards)
            return replace(scores, rewards=zero, accuracy=zero[:, 0])

    rule = filter.MixedGroups(max_rounds=3, when_exhausted=policy)
    made = worlds.module(make_llama(), parts=worlds.objective(filter=rule), scorer=Wrong())
    made.training_step(0, 0)
    assert made.metrics["sampling/rounds"] == 3
    assert made.metrics["groups/informative"] == left
    assert made.metrics["updates/total"] == 0
    assert made.metrics["tokens/generated"] == made.metrics["sampling/discarded_tokens"] > 0


def test_stop_when_exhausted_is_a_sentence() -> None:
    class Wrong(worlds.EvenSum):
        def score(self, prompts, rollouts, **_):
            scores = super().score(prompts, rollouts)
            return replace(scores, accuracy=torch.zeros_like(scores.accuracy))

    rule = filter.MixedGroups(max_rounds=2, when_exhausted="stop")
    made = worlds.module(make_llama(), parts=worlds.objective(filter=rule), scorer=Wrong())
    with pytest.raises(UserError, match=r"step 0 found 0 of 6 informative groups in 2 rounds; raise"):
        worlds.sampled(made)


def test_shaping_is_one_more_reward_column() -> None:
    made = worlds.module(make_llama(), parts=worlds.objective(shaping=shaping.SoftOverlong(interval=0.5)))
    experience = worlds.sampled(made)
    assert experience.scores.rewards.shape[1] == 2
    for rollout, row in zip(experience.rollouts, experience.scores.rewards.tolist(), strict=True):
        # L = 8, C = 4: ((8 − 4) − |o|) / 4 between 4 and 8 tokens
        expected = min(0.0, (4 - rollout.length) / 4)
        assert row[1] == pytest.approx(expected) or row[0] != row[0]


def test_a_bonus_in_the_reward_reaches_completions_that_the_loss_leaves_out() -> None:
    parts = worlds.objective(kl=kl.K1(coef=0.5, place="reward"), overlong=overlong.MaskTruncated())
    policy, reference = make_llama(), make_llama(seed=1)
    made = worlds.module(policy, parts=parts, reference=reference)
    experience = worlds.sampled(made)
    scored = experience.scores.scored
    batch = made.prepare(experience)
    column = experience.scores.rewards[:, -1]
    truncated = torch.tensor([r.truncated for r in experience.rollouts])
    assert (truncated & scored).any()
    assert not batch.mask[truncated].any()
    # −β Σ_t (log π − log π_ref) over all sampled tokens, whatever the loss masks; log μ is log π here
    rows = torch.arange(len(batch))
    ref, *_ = made.passes.logps(reference, batch, rows)
    expected = -0.5 * (batch.logp_rollout - ref).sum(dim=1)
    torch.testing.assert_close(column[scored], expected[scored], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(made.score(batch).logp_ref[scored], ref[scored], rtol=0, atol=1e-12)


def test_metrics_of_a_step_by_hand() -> None:
    made = worlds.module(make_llama())
    experience = worlds.sampled(made)
    made.training_step(0, 0)
    values = experience.scores.rewards[:, 0]
    scored = values[~values.isnan()]
    lengths = [r.length for r in experience.rollouts]
    assert made.metrics["reward"] == pytest.approx(float(scored.mean()))
    assert made.metrics["length/mean"] == pytest.approx(sum(lengths) / len(lengths))
    assert made.metrics["length/max"] == max(lengths)
    nll = -sum(sum(r.logp_rollout) for r in experience.rollouts) / sum(lengths)
    assert made.metrics["sampling/nll"] == pytest.approx(nll)
    assert made.metrics["tokens/generated"] == sum(lengths)
    right = [r.length for r, v in zip(experience.rollouts, values.tolist(), strict=True) if v == 1]
    assert made.metrics["length/right"] == pytest.approx(sum(right) / len(right))


def test_non_finite_updates_are_skipped_and_then_stop_the_run(tmp_path) -> None:
    policy = make_llama()
    made = worlds.module(policy, folder=tmp_path)
    real = made.manual_backward

    def poisoned(loss: torch.Tensor) -> None:
        real(loss)
        next(policy.parameters()).grad[0] = float("nan")

    made.manual_backward = poisoned  # type: ignore[method-assign]
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    made.training_step(0, 0)
    made.training_step(1, 0)
    assert made.metrics["updates/skipped"] == 2
    assert all(torch.equal(before[name], value) for name, value in policy.state_dict().items())
    with pytest.raises(UserError, match=r"3 updates in a row were not finite; the batch is in .*step-000003"):
        made.training_step(2, 0)
    assert (tmp_path / "nonfinite" / "step-000003" / "numbers.json").exists()
    made.manual_backward = real  # type: ignore[method-assign]


def schedule(kind: str, *, warmup: int = 0, floor: float = 0.0, unit: str = "steps", budget=None) -> SimpleNamespace:
    return SimpleNamespace(
        optimizer=SimpleNamespace(lr=2.0),
        schedule=SimpleNamespace(kind=kind, warmup_steps=warmup, floor=floor, unit=unit),
        budget=SimpleNamespace(generated_tokens=budget),
        max_steps=10,
    )


def rate(config: SimpleNamespace, step: int, tokens: int = 0) -> float:
    return learning_rate(config, step=step, generated_tokens=tokens, total_steps=config.max_steps)


def test_schedules() -> None:
    # warm-up over 4 steps: 1/4, 2/4, 3/4, 4/4, then constant
    assert [rate(schedule("constant", warmup=4), s) for s in (0, 1, 3, 9)] == [0.5, 1.0, 2.0, 2.0]
    # linear over 10 steps to 0: step 5 has 1 − 5/10
    assert rate(schedule("linear"), 5) == pytest.approx(1.0)
    # warm-up 2, then linear over the other 8 to 0.5: step 6 is half way: 2·(0.5 + 0.5·0.5)
    assert rate(schedule("linear", warmup=2, floor=0.5), 6) == pytest.approx(1.5)
    # cosine: half way 2·½(1 + cos π/2) = 1, a quarter ½(1 + cos π/4)·2 = 1.7071
    assert rate(schedule("cosine"), 5) == pytest.approx(1.0)
    assert rate(schedule("linear", unit="tokens", budget=1000), 3, tokens=250) == pytest.approx(1.5)
    assert rate(schedule("linear", unit="tokens", budget=1000), 3, tokens=2000) == 0.0
