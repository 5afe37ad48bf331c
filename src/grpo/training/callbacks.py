"""What happens around the steps: evaluation, recording, stopping. Lightning calls them in the order of its list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning

from grpo.data import Prompt, Sampling
from grpo.evaluation.evaluate import evaluate
from grpo.recording.recorder import Recorder
from grpo.runs.folder import RunFolder
from grpo.runs.signals import GracefulStop
from grpo.training.module import GRPOModule
from grpo.training.persistence import RunState, ours


class Evaluation(lightning.Callback):
    """Validation before the first step, every N steps or tokens and after the last step; then `test`, once."""

    UNTRAINED_SAMPLES = 8  # of the reference lines maj@8 and pass@8

    def __init__(
        self,
        *,
        config: Any,
        book: Any,
        scorer: Any,
        recorder: Recorder,
        state: RunState,
        total: int | None,
        say: Callable[[str], None],
    ) -> None:
        self.config, self.book, self.scorer = config, book, scorer
        self.recorder, self.state, self.total, self.say = recorder, state, total, say
        settings = config.eval
        self.sampling = Sampling(
            temperature=settings.temperature, top_p=settings.top_p, max_tokens=config.max_completion_tokens
        )

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """The untrained policy, once: a resumed run has its numbers from the checkpoint."""
        module = ours(pl_module)
        if module.counters.step > 0 or self.state.untrained:
            return
        self.say(f"  untrained   evaluating {self.config.eval.questions} validation questions …")
        samples = max(self.UNTRAINED_SAMPLES, self.config.eval.samples)
        ks = sorted({self.config.eval.samples, self.UNTRAINED_SAMPLES})
        metrics = self._evaluate(module, "validation", self.config.eval.questions, samples, ks)
        self.state.untrained = metrics
        self.recorder.metrics(0, metrics)
        shown = [f"validation/{name}" for name in ("greedy", f"avg@{samples}", f"maj@{samples}", f"pass@{samples}")]
        words = [f"{name.removeprefix('validation/')} {metrics[name]:.2f}" for name in shown if name in metrics]
        self.say(f"  untrained   {' · '.join(words)}\n")
        self._note_best(module.counters.step, metrics)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Validation, when it is due; its metrics join those of the step."""
        module = ours(pl_module)
        if not self._due(module):
            return
        with module.timer("eval"):
            settings = self.config.eval
            metrics = self._evaluate(module, "validation", settings.questions, settings.samples, [settings.samples])
        module.metrics |= {**metrics, "time/eval": module.timer.seconds("eval")}
        self._note_best(module.counters.step, metrics)
        self.state.evaluated_tokens = module.counters.generated_tokens

    def test(self, module: GRPOModule) -> dict[str, float]:
        """The test split, with the weights as they are now."""
        settings = self.config.eval
        ks = sorted({k for k in (1, settings.test_samples) if k <= settings.test_samples})
        return self._evaluate(module, "test", settings.test_questions, settings.test_samples, ks)

    def _due(self, module: GRPOModule) -> bool:
        settings, counters = self.config.eval, module.counters
        if is_last(self.config, self.total, module):
            return True
        if settings.every_tokens is not None:
            return (
                counters.generated_tokens // settings.every_tokens
                > self.state.evaluated_tokens // settings.every_tokens
            )
        return settings.every is not None and counters.step % settings.every == 0

    def _evaluate(
        self, module: GRPOModule, split: str, questions: int, samples: int, ks: list[int]
    ) -> dict[str, float]:
        prompts: list[Prompt] = self.book.split(split, questions)
        result = evaluate(
            module.live_engine,
            self.scorer,
            prompts,
            split=split,
            step=module.counters.step,
            seed=self.config.seed,
            samples=samples,
            sampling=self.sampling,
            greedy=self.config.eval.greedy,
            ks=ks,
        )
        self.recorder.evaluation(module.counters.step, result.rows)
        return result.metrics

    def _note_best(self, step: int, metrics: dict[str, float]) -> None:
        value = metrics.get(f"validation/avg@{self.config.eval.samples}")
        if value is not None and (self.state.best is None or value > self.state.best[1]):
            self.state.best = (step, value)


def budget_spent(config: Any, generated_tokens: int) -> bool:
    """True where a token budget ends the run."""
    budget = config.budget.generated_tokens
    return budget is not None and generated_tokens >= budget


def is_last(config: Any, total: int | None, module: GRPOModule) -> bool:
    """True after the last step: all are done, or the token budget is spent."""
    return module.counters.step == total or budget_spent(config, module.counters.generated_tokens)


class Recording(lightning.Callback):
    """Lines of metrics.jsonl and samples.jsonl, the progress bar and progress.json, after every step."""

    def __init__(self, *, config: Any, recorder: Recorder, folder: RunFolder, progress: Any, total: int | None) -> None:
        self.config, self.recorder, self.folder = config, recorder, folder
        self.progress, self.total = progress, total

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Logged steps are those divisible by log_every, steps with a validation, and the last one."""
        module = ours(pl_module)
        step, metrics = module.counters.step, module.metrics
        evaluated = any(name.startswith("validation/") for name in metrics)
        if step % self.config.log_every == 0 or evaluated or is_last(self.config, self.total, module):
            self.recorder.metrics(step, metrics)
        if self.config.samples_every is not None and (step % self.config.samples_every == 0 or step == 1):
            self.recorder.samples(step, module.samples)
        self.progress.step(step, metrics)
        self.folder.progress(
            step,
            total=self.total,
            reward=metrics.get("reward"),
            generated_tokens=module.counters.generated_tokens,
            eta_seconds=self.progress.eta,
        )


class Handlers(lightning.Callback):
    """Our signal handlers while Lightning has installed its own; first in the list, since an evaluation takes long."""

    def __init__(self, stop: GracefulStop) -> None:
        self.stop = stop

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Lightning's would interrupt inside the step, and with several ranks talk to the others from in there."""
        self.stop.install()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Give the handlers back."""
        self.stop.restore()


class Stopping(lightning.Callback):
    """Ends the run cleanly after a step: on Ctrl-C or SIGTERM, and when the token budget is spent."""

    def __init__(self, *, config: Any, asked: Callable[[], str | None]) -> None:
        self.config, self.asked = config, asked

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Budget: generated tokens, discarded groups included."""
        if budget_spent(self.config, ours(pl_module).counters.generated_tokens) or self.asked():
            trainer.should_stop = True
