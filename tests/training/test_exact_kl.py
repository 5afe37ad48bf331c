"""kl=exact through the network: whole distributions of policy and reference, in the loss and in the reward."""

import torch

from grpo.algorithm import kl
from grpo.models.tail import whole_logits
from grpo.training.logprobs import completion_logps, padded_inputs
from tests.conftest import make_llama
from tests.training import worlds


def written(policy, reference, prompts, rollouts, temperature: float) -> torch.Tensor:
    """KL(π‖π_ref) [B, T] from all logits, without our log-prob code."""
    ids, attention, right = padded_inputs(prompts, rollouts, 0)
    positions = (attention.cumsum(1) - 1).clamp(min=0)

    def distribution(model):
        logits = model(input_ids=ids, attention_mask=attention, position_ids=positions).logits[:, -right - 1 : -1]
        return (logits.double() / temperature).log_softmax(-1)

    logp, ref = distribution(policy), distribution(reference).detach()
    return ((logp.exp() * (logp - ref)).sum(-1)) * attention[:, -right:]


def test_the_gradient_is_that_of_the_written_loss() -> None:
    # −1/N Σ_i 1/|o_i| Σ_t [ratio · A_i − 0.3 · KL_it]
    policy, reference = make_llama(), make_llama(seed=5)
    made = worlds.module(
        policy,
        worlds.config(max_grad_norm=float("inf")),
        worlds.objective(kl=kl.ExactKL(coef=0.3)),
        reference=reference,
    )
    batch = made.prepare(worlds.sampled(made))
    worlds.freeze_optimizer(made)
    made.update(made.score(batch), 0)
    ours = worlds.gradients(policy)

    policy.zero_grad()
    kept = [i for i in range(len(batch)) if batch.in_loss[i]]
    prompts, rollouts = [batch.prompts[i] for i in kept], [batch.rollouts[i] for i in kept]
    logp = completion_logps(policy, prompts, rollouts, temperature=0.9, pad_id=0).logp
    mask = batch.mask[kept][:, : logp.shape[1]]
    penalty = written(policy, reference, prompts, rollouts, 0.9)
    objective = (logp - logp.detach()).exp() * batch.advantages[kept].unsqueeze(1) - 0.3 * penalty
    loss = -((objective * mask).sum(dim=1) / mask.sum(dim=1)).mean()
    loss.backward()
    # Llama's norms compute in float32, and two forward passes sum in different orders; the largest entry is 0.23.
    torch.testing.assert_close(ours, worlds.gradients(policy), rtol=1e-4, atol=1e-6)
    assert made.meters.compute()["kl/ref"] > 1e-3


def test_in_the_reward_each_completion_pays_its_sum() -> None:
    policy, reference = make_llama(), make_llama(seed=5)
    parts = worlds.objective(kl=kl.ExactKL(coef=0.5, place="reward"))
    made = worlds.module(policy, parts=parts, reference=reference)
    experience = worlds.sampled(made)
    before = experience.scores.total
    batch = made.prepare(experience)
    penalty = written(policy, reference, batch.prompts, batch.rollouts, 0.9).detach()
    scored = experience.scores.scored
    torch.testing.assert_close(
        (experience.scores.total - before)[scored], -0.5 * penalty.sum(1)[scored], rtol=1e-9, atol=1e-12
    )


def test_the_reference_itself_costs_nothing() -> None:
    policy = make_llama()
    made = worlds.module(policy, parts=worlds.objective(kl=kl.ExactKL()), reference=make_llama())
    made.update(made.score(made.prepare(worlds.sampled(made))), 0)
    assert abs(made.meters.compute()["kl/ref"]) < 1e-12


def test_the_reference_runs_only_where_its_logits_are_read() -> None:
    """Neither for log π_old, nor in updates where the KL stands in the reward."""

    def passes(place: str) -> tuple[int, int]:
        policy, reference = make_llama(), make_llama(seed=5)
        asked: dict[str, int] = {"policy": 0, "reference": 0}
        for name, model in (("policy", policy), ("reference", reference)):
            whole_logits(model)  # asks once, by a pass of one token
            model.register_forward_pre_hook(lambda *_, name=name: asked.__setitem__(name, asked[name] + 1))
        settings = worlds.config(updates=worlds.updates(minibatches=2), tokens_per_microbatch=10_000)
        made = worlds.module(policy, settings, worlds.objective(kl=kl.ExactKL(place=place)), reference=reference)
        experience = worlds.sampled(made)
        asked.update(policy=0, reference=0)
        made.update(made.score(made.prepare(experience)), 0)
        return asked["policy"], asked["reference"]

    assert passes("loss") == (3, 2)  # log π_old of the second update, and two updates; the reference in these two
    assert passes("reward") == (4, 1)  # the bonus of the whole step first, the only place where the KL is read
