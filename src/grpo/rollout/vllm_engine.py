"""vLLM in the trainer's process: token ids in, token ids and the processed log μ out.

What vLLM does by itself and must not here: it takes sampling defaults from the model's generation config, advances
the global random states, keeps the KV cache of old weights for equal prompts, and gives sample i of a request the seed
`seed + i`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.errors import UserError
from grpo.models.lora import merged
from grpo.rollout.base import earlier
from grpo.rollout.randomness import stable_hash
from grpo.rollout.vllm_guard import ALARM, SyncGuard
from grpo.rollout.vllm_start import kept_random_states, stop_vllm

SEED_BITS = 48
SLEEPERS = ("weights", "kv_cache")  # vLLM's names of what sleep() takes off a GPU


def request_seed(seed: int, stream: str, step: int, prompt_id: str, first_sample: int = 0) -> int:
    """Seed of a request whose samples are `first_sample`, + 1, …: a 48-bit hash, never consecutive numbers.

    vLLM draws sample i with seed + i: of prompts with neighbouring seeds all samples but one would be the same.
    """
    return (stable_hash(seed, stream, step, prompt_id) % (1 << SEED_BITS)) + first_sample


def _reload(worker: Any, pairs: Iterable[tuple[str, Tensor]]) -> None:
    """Runs inside vLLM's worker."""
    worker.model_runner.reload_weights(weights_iterator=iter(pairs))


class VllmEngine:
    """Samples from a copy of `model`'s weights inside vLLM.

    witnessed: `model` is the policy that the trainer computes log π of the completions with, so that the trainer's
    `check` tells a stale engine for free. Where it is not, or μ is truncated, the guard samples probes of its own.
    """

    def __init__(
        self,
        model: Any,
        llm: Any,
        *,
        eos_ids: Sequence[int],
        decode: Callable[[Sequence[int]], str],
        guard: Callable[[VllmEngine], SyncGuard],
        witnessed: bool = True,
        sleeps: bool = False,
        owns_group: bool = False,
        workers: int = 1,
        say: Callable[[str], None] = print,
    ) -> None:
        self.model, self.eos_ids, self.decode = model, sorted(eos_ids), decode
        self.llm: Any = llm
        self.witnessed, self.sleeps, self.workers, self.say = witnessed, sleeps, workers, say
        self.version, self.repairs = 0, 0
        self._unproven, self._alarmed, self._comparable, self._behind = False, False, True, False
        self._asleep: set[str] = set()
        self._owns_group = owns_group
        self.guard = guard(self)

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """The model has new weights: they are copied before the next completion, once for however many updates.

        weights: those of `model`, which is read itself then, an adapter merged into them.
        """
        self.version, self._unproven, self._behind = version, True, True

    def catch_up(self) -> None:
        """Copy the model's weights into vLLM, by name and without the disk.

        All of a `state_dict`, never `named_parameters`: of tied embeddings the latter lacks the head, and on CPU the
        head then keeps its old packed copy although every parameter compares equal.
        """
        if self._behind:
            self._wake("weights")
            self.install(merged(self.model))
            self._behind = False

    def install(self, pairs: Iterable[tuple[str, Tensor]]) -> None:
        """Named tensors to the worker, one by one; all by way of the CPU to the processes of several."""
        if self.workers > 1:
            pairs = [(name, value.detach().cpu()) for name, value in pairs]
        self.llm.collective_rpc(_reload, args=(pairs,))

    def state(self) -> dict[str, Tensor]:
        """Nothing beside the policy."""
        return {}

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """The policy was restored: its weights go to vLLM."""
        self.sync(self.model.state_dict(), version)

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """See `Engine.generate`: one request per prompt. vLLM's own batching may flip a token in 10^5 by rounding."""
        self._comparable = self.witnessed and stream.startswith("train") and not sampling.truncates
        if self._unproven and not self._comparable:
            self._prove()
        return self.sample(prompts, n, sampling, seed=seed, stream=stream, step=step)

    def sample(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """`generate` without the guard."""
        copies = 1 if sampling.temperature == 0 else n  # vLLM refuses n > 1 of the same greedy completion
        seeds = [
            request_seed(seed, stream, step, prompt.id, before * n)
            for prompt, before in zip(prompts, earlier(prompts), strict=True)
        ]
        requests = [{"prompt_token_ids": list(prompt.token_ids)} for prompt in prompts]
        self.catch_up()
        self._wake(*SLEEPERS)
        with kept_random_states():
            self.forget()
            answers = self.llm.generate(requests, [self._params(sampling, copies, s) for s in seeds], use_tqdm=False)
        rollouts = []
        for group, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
            outputs = sorted(answer.outputs, key=lambda output: output.index)
            rollouts += [
                self._rollout(prompt, group, i, outputs[i if copies == n else 0], sampling.top_logprobs)
                for i in range(n)
            ]
        return rollouts

    def rest(self) -> None:
        """Leave the GPU's memory to the update; the weights wait on the CPU."""
        if self.sleeps and not self._asleep:
            self.llm.sleep(level=1)
            self._asleep = set(SLEEPERS)

    def _wake(self, *parts: str) -> None:
        # One by one and never twice: vLLM would map the memory of an awake part again.
        for part in parts:
            if part in self._asleep:
                self.llm.wake_up(tags=[part])
                self._asleep.discard(part)

    def forget(self) -> None:
        """Drop the cached keys and values: they are the old weights', and a resumed run has none to begin with."""
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM kept its prefix cache: a request is still running")

    def _params(self, sampling: Sampling, n: int, seed: int) -> Any:
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

        return SamplingParams(
            n=n,
            seed=seed,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_tokens=sampling.max_tokens,
            logprobs=sampling.top_logprobs,  # 0: of the sampled token alone
            stop_token_ids=self.eos_ids,
            ignore_eos=True,  # all of them are in stop_token_ids
            detokenize=False,
        )

    def _rollout(self, prompt: Prompt, group: int, sample: int, output: Any, top: int) -> Rollout:
        ids = tuple(output.token_ids)
        pairs = [{token: entry.logprob for token, entry in place.items()} for place in output.logprobs]
        if len(pairs) != len(ids):
            raise RuntimeError(f"vLLM returned {len(pairs)} log-probs for {len(ids)} tokens")
        # The K likeliest; the sampled token comes on top where it is none of them.
        best = [sorted(place.items(), key=lambda item: -item[1])[:top] for place in pairs] if top else []
        return Rollout(
            prompt_id=prompt.id,
            group=group,
            sample=sample,
            token_ids=ids,
            logp_rollout=tuple(place[token] for token, place in zip(ids, pairs, strict=True)),
            sampled=(True,) * len(ids),
            finish_reason="stop" if ids and ids[-1] in self.eos_ids else "length",  # vLLM looks at the length first
            text=self.decode(ids),
            weight_version=self.version,
            topk_ids=tuple(tuple(token for token, _ in row) for row in best),
            topk_logp=tuple(tuple(logp for _, logp in row) for row in best),
        )

    def check(self, mismatch: float) -> bool:
        """See `Engine.check`: alarm at ALARM times the value measured at start."""
        if not self._comparable:
            return True
        fine = mismatch <= self.guard.alarm
        if fine:
            self._unproven = self._alarmed = False
            return True
        self._repair(mismatch)
        return False

    def _prove(self) -> None:
        """Compare probes with the model, where the trainer's own comparison does not come or comes too late."""
        while (gap := self.guard.gap()) > self.guard.alarm:
            self._repair(gap)
        self._unproven = self._alarmed = False

    def _repair(self, mismatch: float) -> None:
        """Give the engine its weights again, once; a second alarm in a row ends the run."""
        words = (
            f"vLLM does not have the weights it was given (version {self.version}): mean |log π − log μ| is "
            f"{mismatch:.2g}, more than {ALARM} times the {self.guard.usual:.2g} measured at start"
        )
        if self._alarmed:
            raise UserError(
                f"rollout.kind   {words}, also after another sync; use rollout=transformers and report this"
            )
        self.say(f"warning   {words}; they are given to it again")
        self._alarmed, self.repairs = True, self.repairs + 1
        self.sync(self.model.state_dict(), self.version)

    def close(self) -> None:
        """Shut vLLM down, and torch.distributed with it where vLLM had begun it."""
        if self.llm is None:
            return
        stop_vllm(self.llm, owns_group=self._owns_group)
        self.llm = None
