"""The vLLM engine: what it samples, what it reports, and that a stale copy of the weights does not go unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import util

import pytest
import torch

if util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (make setup-vllm)", allow_module_level=True)

from tests.rollout.vllm_worlds import made, running, sample, tied_folder

from grpo.data import Prompt, Sampling
from grpo.errors import UserError
from grpo.rollout.vllm_engine import VllmEngine
from grpo.rollout.vllm_guard import ALARM, FLOOR
from grpo.training.assemble import Run, transformers_engine
from grpo.training.logprobs import completion_logps


@pytest.fixture(scope="module", params=["untied", "tied"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, VllmEngine]]:
    """A run and its engine, which passed the self-test."""
    tied = ("model=hf", f"model.path={tied_folder(tmp_path_factory.mktemp('tied'))}")
    run = made(*(tied if request.param == "tied" else ()))
    assert run.policy.config.tie_word_embeddings == (request.param == "tied")
    with running(run) as engine:
        yield run, engine


def questions(run: Run, n: int = 3) -> list[Prompt]:
    return run.book.train(0, n)


def gap(run: Run, prompts: list[Prompt], rollouts: list, temperature: float = 1.0) -> float:
    """max |log π − log μ|, the trainer's full forward pass against what the engine reported."""
    with torch.no_grad():
        logp = completion_logps(
            run.policy, [prompts[r.group] for r in rollouts], rollouts, temperature=temperature, pad_id=0
        ).logp
    return max(
        float((logp[row, : r.length] - torch.tensor(r.logp_rollout)).abs().max()) for row, r in enumerate(rollouts)
    )


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_mu_equals_the_trainers_log_pi(world, temperature: float) -> None:
    run, engine = world
    rollouts = sample(engine, questions(run), temperature=temperature)
    assert gap(run, questions(run), rollouts, temperature) <= 1e-5
    # and not by ignoring T: under the other temperature the same tokens have other probabilities
    assert gap(run, questions(run), rollouts, 1.7 - temperature) > 1e-3


def test_samples_differ_and_come_again(world) -> None:
    run, engine = world
    prompts = questions(run)
    rollouts = sample(engine, prompts, n=8, temperature=1.0)
    assert [(r.prompt_id, r.group, r.sample) for r in rollouts] == [
        (p.id, g, i) for g, p in enumerate(prompts) for i in range(8)
    ]
    assert len({r.token_ids for r in rollouts[:8]}) > 1
    again, other = sample(engine, prompts, n=8), sample(engine, prompts, n=8, step=6)
    assert [r.token_ids for r in again] == [r.token_ids for r in rollouts]
    assert [r.token_ids for r in other] != [r.token_ids for r in rollouts]


def test_prompts_do_not_share_their_samples(world) -> None:
    # One question under two ids: seeds that were neighbours would share all samples but one.
    run, engine = world
    (prompt,) = questions(run, 1)
    rollouts = sample(engine, [prompt, Prompt("other id", prompt.token_ids, "")], n=8)
    first, second = ([r.token_ids for r in rollouts if r.group == g] for g in (0, 1))
    assert first[1:] != second[:-1]
    assert first[:-1] != second[1:]
    assert first != second


def test_a_prompt_that_comes_twice_is_sampled_twice(world) -> None:
    run, engine = world
    one, two = questions(run, 2)
    once, twice = sample(engine, [one], n=8), sample(engine, [one, two, one], n=4)
    assert [r.token_ids for r in twice if r.group != 1] == [r.token_ids for r in once]


def test_more_prompts_than_are_read_at_once(world) -> None:
    # 64 prompts of 100 different tokens are 6,400, more than CPU_PREFILL: none is cut, and each is what it is alone.
    run, engine = world
    long = [Prompt(str(i), tuple((i * 7 + j) % 90 + 5 for j in range(100)), "") for i in range(64)]
    rollouts = sample(engine, long, n=2, max_tokens=4)
    assert gap(run, long, rollouts) <= 1e-5
    alone = sample(engine, long[63:], n=2, max_tokens=4)
    assert [r.token_ids for r in rollouts[-2:]] == [r.token_ids for r in alone]


def test_ends_and_lengths_are_those_of_the_other_engine(world) -> None:
    run, engine = world
    everything = tuple(range(100))
    ends, engine.eos_ids = engine.eos_ids, list(everything)
    try:
        # a completion that ends on its last token is not truncated
        assert {(r.finish_reason, r.length) for r in sample(engine, questions(run), max_tokens=1)} == {("stop", 1)}
        engine.eos_ids = []
        assert {(r.finish_reason, r.length) for r in sample(engine, questions(run), max_tokens=5)} == {("length", 5)}
        engine.eos_ids = list(range(50))
        for rollout in sample(engine, questions(run), n=8):
            assert not set(rollout.token_ids[:-1]) & set(range(50))
            assert rollout.finish_reason == ("stop" if rollout.token_ids[-1] < 50 else "length")
            assert rollout.sampled == (True,) * len(rollout.token_ids)
    finally:
        engine.eos_ids = ends


def test_greedy_equals_the_transformers_engine(world) -> None:
    run, engine = world
    theirs = sample(transformers_engine(run, run.policy), questions(run), n=2, temperature=0.0)
    ours = sample(engine, questions(run), n=2, temperature=0.0)
    assert [r.token_ids for r in ours] == [r.token_ids for r in theirs]
    assert [r.finish_reason for r in ours] == [r.finish_reason for r in theirs]
    assert [r.text for r in ours] == [r.text for r in theirs]
    for mine, other in zip(ours, theirs, strict=True):  # T = 0 reports the unscaled distribution
        assert mine.logp_rollout == pytest.approx(other.logp_rollout, abs=1e-5)


def test_top_tokens_are_those_of_the_transformers_engine(world) -> None:
    run, engine = world
    for truncation in ({}, {"top_k": 7}, {"top_p": 0.8}, {"min_p": 0.05}):
        # Greedy would ignore the truncation; a temperature of nearly 0 draws the same tokens in both engines.
        for rollout in sample(engine, questions(run), n=2, top_logprobs=5, temperature=0.8, **truncation):
            prompt = questions(run)[rollout.group]
            with torch.no_grad():
                ids = torch.tensor([[*prompt.token_ids, *rollout.token_ids]])
                logits = run.policy(ids).logits[0, len(prompt.token_ids) - 1 : -1]
            from grpo.rollout.sampling import processed

            logp = processed(logits, Sampling(temperature=0.8, **truncation))
            best = logp.topk(5).values
            for place, (top, values) in enumerate(zip(rollout.topk_ids, rollout.topk_logp, strict=True)):
                kept = best[place].isfinite()
                assert torch.tensor(values)[kept].tolist() == pytest.approx(best[place][kept].tolist(), abs=2e-5)
                assert logp[place][list(top)][kept].tolist() == pytest.approx(best[place][kept].tolist(), abs=2e-5)
                assert rollout.logp_rollout[place] == pytest.approx(
                    float(logp[place, rollout.token_ids[place]]), abs=2e-5
                )


def test_no_global_random_state_is_used(world) -> None:
    run, engine = world
    before = torch.get_rng_state()
    sample(engine, questions(run))
    assert torch.equal(before, torch.get_rng_state())


def test_a_sync_reaches_every_tensor_and_the_next_completion(world) -> None:
    run, engine = world
    prompts = questions(run)
    with engine.guard.perturbed():
        assert gap(run, prompts, sample(engine, prompts)) > 1e-3
        engine.sync(run.policy.state_dict(), 7)
        rollouts = sample(engine, prompts)
        assert gap(run, prompts, rollouts) <= 1e-5
        assert {r.weight_version for r in rollouts} == {7}
    engine.sync(run.policy.state_dict(), 8)
    assert gap(run, prompts, sample(engine, prompts)) <= 1e-5


def left_out(engine: VllmEngine, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """From now on the sync forgets these tensors."""
    whole = VllmEngine.install
    monkeypatch.setattr(engine, "install", lambda pairs: whole(engine, [p for p in pairs if p[0] not in names]))


SABOTAGED = ["model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight"]


@pytest.mark.parametrize("name", SABOTAGED)
def test_the_self_test_names_the_tensor_that_stayed_old(world, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, engine = world
    left_out(engine, monkeypatch, name)
    with pytest.raises(UserError, match=f"the weight sync to vLLM fails.*these tensors stayed old: {name};"):
        engine.guard.self_test()
    monkeypatch.undo()
    engine.sync(run.policy.state_dict(), 0)
    engine.guard.self_test()


def test_the_self_test_sees_a_head_that_stays_old(world, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tied: what named_parameters() would sync. vLLM on CPU keeps a packed copy of the head.
    run, engine = world
    left_out(engine, monkeypatch, "lm_head.weight")
    with pytest.raises(UserError, match="the weight sync to vLLM fails"):
        engine.guard.self_test()
    monkeypatch.undo()
    engine.sync(run.policy.state_dict(), 0)


def test_the_self_test_sees_a_kept_prefix_cache(world, monkeypatch: pytest.MonkeyPatch) -> None:
    run, engine = world
    engine.guard.probe()  # fills the cache with keys and values of the weights as they are
    monkeypatch.setattr(engine, "forget", lambda: None)
    with pytest.raises(UserError, match="the weight sync to vLLM fails"):
        engine.guard.self_test()
    monkeypatch.undo()
    engine.sync(run.policy.state_dict(), 0)


def test_an_alarm_repairs_once_and_then_stops(world, monkeypatch: pytest.MonkeyPatch) -> None:
    run, engine = world
    said: list[str] = []
    monkeypatch.setattr(engine, "say", said.append)
    monkeypatch.setattr(engine.guard, "usual", FLOOR)
    limit, repairs = ALARM * FLOOR, engine.repairs  # 20 · 1e-6 nats
    sample(engine, questions(run))
    assert engine.check(limit)
    assert engine.repairs == repairs
    assert not engine.check(1.01 * limit)
    assert engine.repairs == repairs + 1
    assert said[0].startswith("warning   vLLM does not have the weights it was given")
    assert engine.check(limit)  # the repair helped, so the next alarm is a first one again
    assert not engine.check(1.01 * limit)
    with pytest.raises(UserError, match="also after another sync"):
        engine.check(1.01 * limit)
    engine._alarmed = False


def test_an_evaluation_finds_a_stale_engine_by_itself(world, monkeypatch: pytest.MonkeyPatch) -> None:
    run, engine = world
    monkeypatch.setattr(engine, "say", lambda text: None)
    repairs, prompts = engine.repairs, questions(run)
    with engine.guard.perturbed():
        with monkeypatch.context() as once:
            once.setattr(engine, "install", lambda pairs: None)
            engine.sync(run.policy.state_dict(), 1)
            engine.catch_up()
        rollouts = engine.generate(prompts, 2, Sampling(max_tokens=8), seed=0, stream="validation", step=1)
        assert engine.repairs == repairs + 1
        assert gap(run, prompts, rollouts) <= 1e-5
        with monkeypatch.context() as always:
            always.setattr(engine, "install", lambda pairs: None)
            with torch.no_grad():
                run.policy.get_output_embeddings().weight.mul_(1.5)
            engine.sync(run.policy.state_dict(), 2)
            with pytest.raises(UserError, match="also after another sync"):
                engine.generate(prompts, 2, Sampling(max_tokens=8), seed=0, stream="test", step=1)
    engine._alarmed = False
    engine.sync(run.policy.state_dict(), 0)


def test_several_updates_are_one_copy(world, monkeypatch: pytest.MonkeyPatch) -> None:
    run, engine = world
    copies: list[int] = []
    whole = VllmEngine.install
    monkeypatch.setattr(engine, "install", lambda pairs: (copies.append(engine.version), whole(engine, pairs)))
    for version in (1, 2, 3):
        engine.sync(run.policy.state_dict(), version)
    engine.catch_up()
    engine.catch_up()
    assert {r.weight_version for r in sample(engine, questions(run))} == {3}
    assert copies == [3]


def test_an_engine_over_two_processes_is_synced_too() -> None:
    run = made("rollout.tensor_parallel_size=2")
    with running(run) as engine, engine.guard.perturbed():  # the self-test has passed
        assert gap(run, questions(run), sample(engine, questions(run))) > 1e-3
        engine.sync(run.policy.state_dict(), 1)
        assert gap(run, questions(run), sample(engine, questions(run))) <= 1e-5


def test_an_adapter_is_merged_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    run = made("model.lora.r=4")
    with running(run) as engine:
        base = {name: value.clone() for name, value in run.policy.state_dict().items() if ".base_layer." in name}
        prompts, before = questions(run), sample(engine, questions(run))
        with torch.no_grad():
            for name, parameter in run.policy.named_parameters():
                if "lora_B" in name:  # was 0: the adapter did nothing
                    parameter.add_(0.05)
        assert gap(run, prompts, before) > 1e-3
        engine.sync(run.policy.state_dict(), 1)
        assert gap(run, prompts, sample(engine, prompts)) <= 1e-5
        assert base
        assert all(torch.equal(run.policy.state_dict()[name], value) for name, value in base.items())


def test_another_engine_draws_the_same() -> None:
    drawn = []
    for _ in range(2):
        run = made()
        with running(run) as engine:
            drawn.append([(r.token_ids, r.logp_rollout) for r in sample(engine, questions(run), n=8)])
        assert engine.llm is None
        assert not torch.distributed.is_initialized()
    assert drawn[0] == drawn[1]
