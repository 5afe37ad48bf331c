"""The engine that is wrong on purpose: what it samples from, what it reports, and that a resumed run has it again."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests import helpers
from tests.conftest import make_llama
from tests.rollout.test_transformers_engine import PROMPTS, engine_of

from grpo.config.check import load
from grpo.config.nodes import Perturb
from grpo.data import Rollout, Sampling
from grpo.errors import ConfigError
from grpo.ranks.ranks import ALONE
from grpo.rollout.lagged import LaggedEngine
from grpo.rollout.perturb import PerturbedEngine, noise, rounded
from grpo.training.assemble import engines
from grpo.training.logprobs import completion_logps

HOT = Sampling(temperature=1.0, max_tokens=6)


def perturbed(policy: Any, perturb: Perturb, seed: int = 0) -> PerturbedEngine:
    model = LaggedEngine.private_copy(policy) if perturb.weights else policy
    return PerturbedEngine(engine_of(model), model, policy, perturb, seed)


def trainer_logp(model: Any, rollout: Rollout, temperature: float = 1.0) -> list[float]:
    """log π of a completion by a full forward pass."""
    prompts = [PROMPTS[rollout.group]]
    logp, *_ = completion_logps(model, prompts, [rollout], temperature=temperature, pad_id=0)
    return logp[0, : rollout.length].tolist()


def test_rounding_to_seven_bits_is_bfloat16() -> None:
    values = torch.randn(10_000, generator=torch.Generator().manual_seed(0)) * 3
    assert torch.equal(rounded(values, 7), values.bfloat16().float())


def test_rounding_by_hand() -> None:
    # two explicit bits: 1.00, 1.25, 1.50, 1.75 between 1 and 2, twice as far apart above 2; 0 stays
    values = torch.tensor([1.1, 1.2, 1.375, 1.625, -2.9, 0.0, 3.9])
    assert rounded(values, 2).tolist() == [1.0, 1.25, 1.5, 1.5, -3.0, 0.0, 4.0]  # 1.375 and 1.625 are ties: to even


def test_noise_has_its_size_and_is_a_function_of_seed_version_and_name() -> None:
    values = torch.full((400, 400), 2.0)  # RMS 2
    drawn = noise(values, 0.05, seed=1, version=3, name="w")
    # 160,000 draws: the standard error of their RMS is 0.1 / sqrt(320,000) = 0.00018
    assert float(drawn.square().mean().sqrt()) == pytest.approx(0.05 * 2, abs=0.001)
    assert torch.equal(drawn, noise(values, 0.05, seed=1, version=3, name="w"))
    for other in ({"seed": 2}, {"version": 4}, {"name": "v"}):
        again = noise(values, 0.05, **({"seed": 1, "version": 3, "name": "w"} | other))
        # independent: the correlation of 160,000 pairs is 0 ± 0.0025
        assert abs(float(torch.corrcoef(torch.stack([drawn.flatten(), again.flatten()]))[0, 1])) < 0.0125


def test_a_hot_engine_reports_what_it_drew_from(llama: Any) -> None:
    engine = perturbed(llama, Perturb(temperature=1.25))
    for rollout in engine.generate(PROMPTS, 3, HOT, seed=0, stream="train/0", step=1):
        # T · 1.25: log softmax(logits / 1.25), and not the trainer's log softmax(logits)
        expected = trainer_logp(llama, rollout, 1.25)
        assert list(rollout.logp_rollout) == pytest.approx(expected, abs=1e-10)
        assert list(rollout.logp_rollout) != pytest.approx(trainer_logp(llama, rollout), abs=1e-4)


@pytest.mark.parametrize("tied", [False, True])
def test_log_mu_is_that_of_the_perturbed_weights(tied: bool) -> None:
    policy = make_llama()
    if tied:
        policy.lm_head.weight = policy.model.embed_tokens.weight
    perturb = Perturb(noise=0.1, bits=5)
    engine = perturbed(policy, perturb)
    copy = LaggedEngine.private_copy(policy)
    copy.load_state_dict(engine.perturbed(policy.state_dict(), 0))
    if tied:
        assert torch.equal(copy.lm_head.weight, copy.model.embed_tokens.weight)
    for rollout in engine.generate(PROMPTS, 2, HOT, seed=0, stream="train/0", step=1):
        assert list(rollout.logp_rollout) == pytest.approx(trainer_logp(copy, rollout), abs=1e-10)


def test_importance_weights_undo_the_perturbation(llama: Any) -> None:
    """E_μ[π/μ · f] = E_π[f], f = whether the first token is the likeliest one; π known exactly."""
    prompt, count = PROMPTS[0], 4000
    with torch.no_grad():
        pi = llama(torch.tensor([prompt.token_ids])).logits[0, -1].log_softmax(-1)
    best = int(pi.argmax())
    engine = perturbed(llama, Perturb(temperature=3.0))
    drawn = engine.generate([prompt], count, Sampling(max_tokens=1), seed=0, stream="train/0", step=1)
    terms = [math.exp(float(pi[r.token_ids[0]]) - r.logp_rollout[0]) * (r.token_ids[0] == best) for r in drawn]
    mean = sum(terms) / count
    error = math.sqrt(sum((t - mean) ** 2 for t in terms) / (count - 1) / count)
    assert abs(mean - math.exp(float(pi[best]))) < 4 * error
    plain = sum(r.token_ids[0] == best for r in drawn) / count
    assert plain < math.exp(float(pi[best])) - 4 * error  # hotter: the likeliest token comes too rarely


def test_the_policy_is_untouched_and_each_version_has_its_own_noise(llama: Any) -> None:
    before = {name: value.clone() for name, value in llama.state_dict().items()}
    engine = perturbed(llama, Perturb(noise=0.01))
    zero = {name: value.clone() for name, value in engine.model.state_dict().items()}
    engine.sync(llama.state_dict(), 1)
    name = "model.layers.0.mlp.up_proj.weight"
    first, second = zero[name] - before[name], engine.model.state_dict()[name] - before[name]
    rms = float(before[name].square().mean().sqrt())
    for change in (first, second):  # 0.01 · RMS; n entries: relative standard error 1 / sqrt(2n)
        size = float(change.square().mean().sqrt()) / rms
        assert size == pytest.approx(0.01, rel=5 / math.sqrt(2 * change.numel()))
    assert abs(float(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1])) < 0.2
    assert engine.version == 1
    assert all(torch.equal(value, llama.state_dict()[key]) for key, value in before.items())


@pytest.mark.parametrize("perturb", [Perturb(bits=3), Perturb(noise=0.05), Perturb(noise=0.05, bits=5)])
def test_lag_first_then_perturbation(llama: Any, perturb: Perturb) -> None:
    """Through `engines`, as a run makes them: weights of one version are perturbed once, however often they come."""
    rollout = SimpleNamespace(kind="transformers", lag=1, perturb=perturb, perturbed=True, max_rows=256)
    tokenizer = SimpleNamespace(pad_token_id=0, eos_token_id=2, decode=lambda ids, **_: "")
    config = SimpleNamespace(rollout=rollout, seed=7)
    made = SimpleNamespace(config=config, policy=llama, tokenizer=tokenizer, autocast=nullcontext, ranks=ALONE)
    engine, live = engines(made, SimpleNamespace(policy=llama))  # type: ignore[arg-type]
    assert isinstance(engine, LaggedEngine)
    inner = engine.engine
    assert isinstance(inner, PerturbedEngine)
    old = {name: value.clone() for name, value in llama.state_dict().items()}
    new = {name: value * 1.3 for name, value in old.items()}
    for version, sampled, weights in ((1, 0, old), (2, 1, new), (3, 2, new)):
        engine.sync(new, version)
        assert engine.version == sampled  # one update behind
        expected = inner.perturbed(weights, sampled)
        assert all(torch.equal(value, expected[name]) for name, value in engine.model.state_dict().items())
    # noised once: the change has 0.05 of the tensor's RMS
    if perturb.bits is None:
        name = "model.layers.0.mlp.up_proj.weight"
        change = inner.perturbed(old, 0)[name] - old[name]
        size = float(change.square().mean().sqrt() / old[name].square().mean().sqrt())
        assert size == pytest.approx(0.05, rel=5 / math.sqrt(2 * change.numel()))
    assert live.model is llama  # evaluation samples from the policy itself


def test_greedy_stays_greedy(llama: Any) -> None:
    greedy = Sampling(temperature=0.0, max_tokens=5)
    hot = perturbed(llama, Perturb(temperature=5.0)).generate(PROMPTS, 1, greedy, seed=0, stream="x", step=0)
    plain = engine_of(llama).generate(PROMPTS, 1, greedy, seed=0, stream="x", step=0)
    assert [r.token_ids for r in hot] == [r.token_ids for r in plain]


def test_a_run_says_it_and_resumes_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("rollout.perturb.noise=0.05", "+algo=tis", "max_steps=3", "checkpoint.every=2", "checkpoint.keep=3")
    code, whole = helpers.run(tmp_path / "perturbed", *words)
    assert code == 0
    assert "rollout transformers, perturbed: weight noise 5 % (a copy of the policy)" in capsys.readouterr().out
    rows = [helpers.without_clock(row) for row in helpers.lines(whole / "metrics.jsonl")]
    plain = helpers.lines(helpers.run(tmp_path / "plain", *words[1:])[1] / "metrics.jsonl")
    # float32: the engine's cached decode is about 1e-5 from the trainer's forward where nothing is perturbed
    mismatch = [next(r["mismatch/abs_logp_mean"] for r in run if r["step"] == 1) for run in (plain, rows)]
    assert mismatch[0] < 1e-4
    assert mismatch[1] > 1e-2
    # evaluation samples from the policy itself: the untrained one's lines are equal
    assert {k: v for k, v in rows[0].items() if "/" in k} == {
        k: v for k, v in helpers.without_clock(plain[0]).items() if "/" in k
    }
    code, again = helpers.run(tmp_path / "perturbed", *words, f"resume={whole}/checkpoints/step-000002")
    assert (code, again) == (0, whole)
    assert [helpers.without_clock(row) for row in helpers.lines(whole / "metrics.jsonl")] == rows


def test_replay_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.perturb   recorded completions have no engine"):
        load(["rollout=replay", f"rollout.path={tmp_path}", "rollout.perturb.noise=0.1"])
