"""The transformers engine: what it samples, what it reports, and that batching changes nothing."""

from __future__ import annotations

import pytest
import torch

from grpo.data import Prompt, Rollout, Sampling
from grpo.rollout.lagged import LaggedEngine
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.training.logprobs import completion_logps

PROMPTS = [
    Prompt("a", (1, 5, 6, 7), "a"),
    Prompt("b", (1, 9), "b"),
    Prompt("c", (1, 11, 12, 13, 14, 15, 16), "c"),
]


def engine_of(model, eos: tuple[int, ...] = (2,), max_rows: int = 256) -> TransformersEngine:
    return TransformersEngine(
        model, eos_ids=eos, pad_id=0, decode=lambda ids: " ".join(map(str, ids)), max_rows=max_rows
    )


def sample(model, prompts=PROMPTS, n: int = 4, eos=(2,), max_rows: int = 256, **sampling) -> list[Rollout]:
    settings = Sampling(**{"max_tokens": 12, **sampling})
    return engine_of(model, eos, max_rows).generate(prompts, n, settings, seed=3, stream="train/0", step=5)


def test_order_groups_and_samples_are_data(llama) -> None:
    rollouts = sample(llama)
    assert [(r.prompt_id, r.group, r.sample) for r in rollouts] == [
        (p.id, g, i) for g, p in enumerate(PROMPTS) for i in range(4)
    ]
    assert len({r.token_ids for r in rollouts[:4]}) > 1


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_mu_equals_the_trainers_log_pi(llama, temperature: float) -> None:
    # A full padded forward pass against the cached decode, both of softmax(logits / T).
    rollouts = sample(llama, temperature=temperature)
    prompts = [PROMPTS[r.group] for r in rollouts]
    logp, entropy, *_ = completion_logps(llama, prompts, rollouts, temperature=temperature, pad_id=0)
    for row, rollout in enumerate(rollouts):
        length = len(rollout.token_ids)
        assert logp[row, :length].tolist() == pytest.approx(list(rollout.logp_rollout), abs=1e-10)
        assert logp[row, length:].abs().sum() == 0
        assert entropy[row, length:].abs().sum() == 0
        assert float(entropy[row, :length].min()) > 0


@pytest.mark.parametrize("max_rows", [1, 3, 5, 8])
def test_batching_changes_nothing(llama, max_rows: int) -> None:
    whole, parts = sample(llama), sample(llama, max_rows=max_rows)
    for one, other in zip(whole, parts, strict=True):
        assert one.token_ids == other.token_ids
        assert one.logp_rollout == pytest.approx(other.logp_rollout, abs=1e-10)


def test_neighbours_change_nothing(llama) -> None:
    alone = sample(llama, prompts=[PROMPTS[1]], n=2)
    together = [r for r in sample(llama) if r.prompt_id == "b"][:2]
    assert [r.token_ids for r in alone] == [r.token_ids for r in together]


def test_a_prompt_that_comes_twice_is_sampled_twice(llama) -> None:
    # Few questions: the end of a pass and the begin of the next meet in one step.
    once, twice = sample(llama, prompts=[PROMPTS[0]], n=8), sample(llama, prompts=[*PROMPTS, PROMPTS[0]], n=4)
    first, second = ([r.token_ids for r in twice if r.group == group] for group in (0, 3))
    assert first + second == [r.token_ids for r in once]
    assert first != second


def test_the_same_numbers_again_and_others_for_another_seed(llama) -> None:
    assert sample(llama) == sample(llama)
    other = engine_of(llama).generate(PROMPTS, 4, Sampling(max_tokens=12), seed=4, stream="train/0", step=5)
    assert [r.token_ids for r in other] != [r.token_ids for r in sample(llama)]


def test_no_global_random_state_is_used(llama) -> None:
    before = torch.get_rng_state()
    sample(llama)
    assert torch.equal(before, torch.get_rng_state())


def test_greedy_equals_transformers_generate(llama) -> None:
    ours = sample(llama, n=1, temperature=0.0)
    for prompt, rollout in zip(PROMPTS, ours, strict=True):
        ids = torch.tensor([prompt.token_ids])
        theirs = llama.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, eos_token_id=2, pad_token_id=0
        )[0, ids.shape[1] :]
        assert list(rollout.token_ids) == theirs.tolist()


def test_every_eos_id_ends_a_completion_and_is_counted(llama) -> None:
    # With half of the vocabulary ending a completion, all are short; the id that ended it is its last token.
    ends = tuple(range(2, 14))
    for rollout in sample(llama, n=8, eos=ends):
        inside, last = rollout.token_ids[:-1], rollout.token_ids[-1]
        assert not set(inside) & set(ends)
        assert rollout.finish_reason == ("stop" if last in ends else "length")
        assert rollout.length == len(rollout.token_ids) == len(rollout.logp_rollout)


def test_a_completion_that_ends_on_its_last_token_is_not_truncated(llama) -> None:
    everything = tuple(range(24))
    for rollout in sample(llama, eos=everything, max_tokens=1):
        assert (rollout.finish_reason, rollout.length) == ("stop", 1)
    for rollout in sample(llama, eos=(23_000,), max_tokens=1):
        assert (rollout.finish_reason, rollout.length) == ("length", 1)


def test_pad_equal_to_eos_and_pad_sampled_in_the_middle(llama) -> None:
    # Pad is id 0 and no end: when the policy samples it, it counts like any token.
    rollouts = [r for r in sample(llama, n=32, eos=(2,)) if 0 in r.token_ids[:-1]]
    assert rollouts
    logp, *_ = completion_logps(llama, [PROMPTS[r.group] for r in rollouts], rollouts, temperature=1.0, pad_id=0)
    for row, rollout in enumerate(rollouts):
        assert logp[row, : rollout.length].tolist() == pytest.approx(list(rollout.logp_rollout), abs=1e-10)


def test_truncated_sampling_reports_its_own_distribution(llama) -> None:
    plain = sample(llama, n=4, top_k=2)
    logp, *_ = completion_logps(llama, [PROMPTS[r.group] for r in plain], plain, temperature=1.0, pad_id=0)
    first = torch.tensor([r.logp_rollout[0] for r in plain])
    # Renormalised on two tokens: more likely than under the full softmax.
    assert bool((first > logp[:, 0]).all())


def test_frequencies_of_the_first_token(llama) -> None:
    count = 4000
    rollouts = sample(llama, prompts=[PROMPTS[0]], n=count, max_tokens=1, max_rows=1000)
    with torch.no_grad():
        p = torch.softmax(llama(torch.tensor([PROMPTS[0].token_ids])).logits[0, -1], dim=-1)
    observed = torch.bincount(torch.tensor([r.token_ids[0] for r in rollouts]), minlength=24) / count
    assert float(((observed - p).abs() / (p * (1 - p) / count).sqrt().clamp(min=1e-3)).max()) < 5


def test_lag_samples_from_old_weights(llama) -> None:
    private = LaggedEngine.private_copy(llama)
    lagged = LaggedEngine(engine_of(private), private, lag=2)
    settings = {"seed": 3, "stream": "train/0", "step": 5}

    def ids(engine) -> list[tuple[int, ...]]:
        return [r.token_ids for r in engine.generate(PROMPTS, 4, Sampling(max_tokens=6), **settings)]

    seen = [ids(engine_of(llama))]
    for version in (1, 2, 3):
        with torch.no_grad():
            llama.lm_head.weight.mul_(-1.5)  # another distribution each time
        lagged.sync(llama.state_dict(), version)
        seen.append(ids(engine_of(llama)))
        # version 1 and 2 still sample from 0; version 3 from 1
        assert lagged.version == max(0, version - 2)
        assert ids(lagged) == seen[max(0, version - 2)]
    restored_model = LaggedEngine.private_copy(llama)
    restored = LaggedEngine(engine_of(restored_model), restored_model, lag=2)
    restored.load_state(lagged.state(), 3)
    assert restored.version == 1
    assert ids(restored) == seen[1]


def test_top_tokens_of_mu_and_their_log_pi(llama) -> None:
    rollouts = sample(llama, n=2, top_logprobs=5, temperature=0.8)
    ids = torch.zeros(len(rollouts), 12, 5, dtype=torch.long)
    for row, rollout in enumerate(rollouts):
        assert len(rollout.topk_ids) == len(rollout.topk_logp) == rollout.length
        ids[row, : rollout.length] = torch.tensor(rollout.topk_ids)
        for position, (top, logps) in enumerate(zip(rollout.topk_ids, rollout.topk_logp, strict=True)):
            assert list(logps) == sorted(logps, reverse=True)
            if rollout.token_ids[position] in top:
                assert logps[top.index(rollout.token_ids[position])] == rollout.logp_rollout[position]
            else:
                assert rollout.logp_rollout[position] <= logps[-1]
    width = max(r.length for r in rollouts)
    prompts = [PROMPTS[r.group] for r in rollouts]
    _, _, top, _ = completion_logps(llama, prompts, rollouts, temperature=0.8, pad_id=0, topk_ids=ids[:, :width])
    assert top is not None
    for row, rollout in enumerate(rollouts):
        expected = torch.tensor(rollout.topk_logp, dtype=torch.float64)
        torch.testing.assert_close(top[row, : rollout.length], expected, rtol=0, atol=1e-10)
