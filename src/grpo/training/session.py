"""The life of a run in its folder, on one of its ranks."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader

from grpo import start
from grpo.config.hashing import algorithm_hash, config_hash
from grpo.config.overrides import word
from grpo.data import Prompt, Rollout, Scores
from grpo.models import load as models
from grpo.models import lora
from grpo.models.tail import whole_logits
from grpo.plan import memory
from grpo.ranks.mute import Mute
from grpo.ranks.ranks import backend
from grpo.recording import curves, wandb
from grpo.recording.meters import reset_peak_memory
from grpo.recording.progress import Progress, end_lines
from grpo.recording.recorder import Recorder
from grpo.rollout.shared import shared
from grpo.runs import checkpoint, resume
from grpo.runs.folder import RunFolder
from grpo.runs.golds import look
from grpo.runs.preflight import preflight
from grpo.runs.signals import GracefulStop
from grpo.training.assemble import Run, cpu_threads, make_module, training_sampling, transformers_engine
from grpo.training.callbacks import Evaluation, Handlers, Recording, Stopping, budget_spent
from grpo.training.collect import score
from grpo.training.persistence import Checkpoints, Restore, RunState

ENDLESS = 10**9  # steps of a run that a token budget ends


class Session:
    """The life of one run in its folder, in the order of the methods."""

    def __init__(
        self,
        assembled: Run,
        resolved: Mapping[str, Any],
        folder: RunFolder,
        plan: resume.ResumePlan,
        stop: GracefulStop,
        flags: Sequence[str] = (),
    ) -> None:
        self.made, self.config, self.resolved = assembled, assembled.config, resolved
        self.folder, self.plan, self.stop, self.flags = folder, plan, stop, flags
        self.total, self.ranks = assembled.sizes.steps, assembled.ranks
        self.state = RunState()
        self.module = make_module(assembled, folder.path)
        self.logger: Any = None
        self.recorder: Any = Mute()
        self.progress: Any = Mute()
        if self.ranks.first:
            self.progress = Progress(self.total, self.config.budget.generated_tokens, start=plan.step)
            self.logger = self._logger()  # last: from here on `run` closes it, whatever happens
            self.recorder = Recorder(folder.path, self.logger)
            assembled.say = self.progress.say  # that of the others goes to their own output

    def run(self) -> int:
        """Start table, preflight, training, test, export, curves, last words; returns the exit code."""
        began, ended = time.monotonic(), "failed"
        try:
            self.announce()
            self.preflight()
            if self.asked() is None:
                self.train()
            ended = "stopped" if self.asked() else "done"
            if ended == "done":
                self.finish()
            if self.ranks.first:
                curves.draw(self.folder.path)
                self.progress.close()
                self.say_lines(["", *self.last_words(ended, time.monotonic() - began)])
        finally:
            self.progress.close()
            self.recorder.close(ended)
            self.module.close()
            self.made.scorer.close()
        # A signal during the last evaluation does not undo a run whose steps are done.
        reason = self.reason if ended == "done" else self.stop.requested
        self.folder.status(ended, step=self.module.counters.step, reason=reason)
        return 0 if ended == "done" else 128 + signal.Signals[str(self.stop.requested)].value

    def asked(self) -> str | None:
        """SIGINT or SIGTERM, if any rank was asked to stop: the same answer on all of them."""
        heard = [name for name in self.ranks.all(lambda: self.stop.requested) if name]
        if heard:
            self.stop.hear(heard[0])
        return heard[0] if heard else None

    def _logger(self) -> Any:
        config = self.config
        return wandb.make_logger(
            config.logger,
            self.folder.path,
            name=f"{config.arm or config.name}-s{config.seed}",
            group=Path(config.sweep).name if config.sweep else None,
            job_type=config.arm or config.name,
            tags=[config.algorithm, config.source, *(f"{group}={choice}" for group, choice in config.choices.items())],
            resolved={
                **self.resolved,
                "algorithm_hash": algorithm_hash(self.resolved),
                "config_hash": config_hash(self.resolved),
            },
        )

    def announce(self) -> None:
        """The start table, before anything is sampled."""
        if not self.ranks.first:
            return
        made, book = self.made, self.made.book
        first = book.train(self.plan.step, 1)[0]
        self.say_lines(
            start.table(
                self.config,
                made.sizes,
                made.objective,
                start.Facts(
                    folder=str(self.folder.path),
                    parameters=made.policy.num_parameters(),
                    trainable=None if self.config.model.lora.r is None else lora.counts(made.policy)[0],
                    dtype=precision(made.policy.dtype, made.autocast is not nullcontext),
                    device=made.device.type if self.ranks.world > 1 else str(made.device),
                    devices=self.ranks.world,
                    backend=backend(made.device.type == "cuda") if self.ranks.world > 1 else "",
                    whole=made.objective.needs_whole_update,
                    threads=cpu_threads() if made.device.type == "cpu" else None,
                    reference=reference_word(made.reference),
                    train_questions=book.size("train"),
                    validation_questions=book.size("validation"),
                    test_questions=book.size("test"),
                    first_prompt=first.text,
                    first_prompt_ids=first.token_ids,
                    data_notes=book.notes(),
                    restored=self.plan.message or "",
                    logger=wandb.describe(self.logger),
                    memory=memory.plan(self.config, made.policy.config).line(),
                    whole_logits=whole_logits(made.policy),
                ),
            )
        )

    def say_lines(self, lines: list[str]) -> None:
        """Text above the progress bar."""
        for line in lines:
            self.progress.say(line)

    def preflight(self) -> None:
        """Is there anything to learn? Only before the first step: a resumed run has answered it."""
        config = self.config
        if config.preflight_mode == "off" or self.plan.checkpoint is not None:
            return
        engine = shared(transformers_engine(self.made, self.made.policy), self.ranks)
        sampling, made = training_sampling(config), self.made
        golds = look(config.task, made.scorer.functions[made.scorer.accuracy_name]) if self.ranks.first else None
        self.say_lines(start.aligned([("answers", line) for line in (golds.lines() if golds else [])]))

        def sample(round_: int) -> tuple[list[Prompt], list[Rollout], Scores]:
            prompts = made.book.refill(-1, round_, config.prompts_per_step)
            rollouts = engine.generate(
                prompts, config.group_size, sampling, seed=config.seed, stream=f"preflight/{round_}", step=0
            )
            return prompts, rollouts, score(made.scorer, made.objective.shaping, prompts, rollouts, sampling.max_tokens)

        report = preflight(
            sample,
            config.group_size,
            max_completion_tokens=config.max_completion_tokens,
            clock=lambda: self.ranks.once(time.monotonic),  # its limit is a decision
        )
        lines = self.ranks.once(lambda: report.enforce(config.preflight_mode))
        self.say_lines(start.aligned([("preflight", line) for line in lines]))

    def train(self) -> None:
        """Lightning's Trainer over a finite loader of step numbers; everything else happens in the callbacks."""
        reset_peak_memory()
        config = self.config
        if self.plan.folder is not None:
            self.recorder.cut_back(self.plan.step if self.plan.checkpoint is not None else -1)
        common = {"config": config, "state": self.state, "recorder": self.recorder}
        self.evaluation = Evaluation(
            **common, book=self.made.book, scorer=self.made.scorer, total=self.total, say=self.progress.say
        )
        identity = {"config_hash": config_hash(self.resolved), "seed": config.seed}
        restored = checkpoint.load(self.plan.checkpoint) if self.plan.checkpoint else None
        writers = [
            Recording(
                config=config, recorder=self.recorder, folder=self.folder, progress=self.progress, total=self.total
            ),
            Checkpoints(**common, folder=self.folder, stop=self.stop, identity=identity),
        ]
        trainer = lightning.Trainer(
            accelerator=self.made.device.type if self.made.device.type == "cpu" else "gpu",
            **self.devices(),
            max_epochs=1,  # one pass over the loader; max_steps would count optimizer updates
            max_steps=-1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[
                Handlers(self.stop),
                Restore(restored, self.state),
                self.evaluation,
                *(writers if self.ranks.first else []),
                Stopping(config=config, asked=self.asked),
            ],
        )
        spent = restored and budget_spent(config, restored.state["counters"]["generated_tokens"])
        end = ENDLESS if self.total is None else self.total
        steps = range(self.plan.step, self.plan.step if spent else end)  # empty: stopped between last step and test
        trainer.fit(self.module, DataLoader(steps, batch_size=None))  # type: ignore[arg-type]

    def devices(self) -> dict[str, Any]:
        """One device, or the ranks' under DDP: our group is there, and each rank reads all step numbers."""
        if self.ranks.world == 1:
            return {"devices": 1}
        strategy = DDPStrategy(
            process_group_backend=backend(self.made.device.type == "cuda"),
            cluster_environment=TorchElasticEnvironment(),
        )
        return {"devices": self.ranks.world, "strategy": strategy, "use_distributed_sampler": False}

    @property
    def reason(self) -> str:
        """Why the steps ended."""
        counters = self.module.counters
        return "all steps done" if counters.step == self.total else "token budget spent"

    def finish(self) -> None:
        """Test with the last weights, the policy as a folder, the summary."""
        self.made.policy.to(self.made.device)  # Lightning leaves it on the CPU
        if self.config.eval.test_questions:
            metrics = self.evaluation.test(self.module)
            self.recorder.metrics(self.module.counters.step, metrics)
            self.recorder.summary(metrics)
            self.progress.result(metrics)
        if self.config.checkpoint.export and self.ranks.first:
            models.export(self.made.policy, self.made.tokenizer, self.folder.path / "policy")
            if self.config.model.lora.r is not None:
                lora.export_adapter(self.made.policy, self.folder.path / "policy_adapter")

    def last_words(self, ended: str, seconds: float) -> list[str]:
        """How it went, where everything is, and the command that repeats or continues it."""
        elsewhere = ("run_dir=",) if ended == "stopped" else ("run_dir=", "sweep=", "arm=")
        words = [text for text in self.config.overrides if not text.startswith(("seed=", "resume=", *elsewhere))]
        command = " ".join(["python -m grpo", *map(shlex.quote, [*self.flags, *words]), f"seed={self.config.seed}"])
        if ended == "stopped" and self.module.counters.step > 0:  # before that there is no checkpoint
            command += " " + shlex.quote(word("resume", str(self.folder.path)))
        policy = self.folder.path / "policy"
        counters = self.module.counters
        return end_lines(
            self.folder.path,
            ended,
            seconds=seconds,
            step=counters.step,
            tokens=counters.generated_tokens,
            command=command,
            policy=policy if policy.exists() else None,
        )


def reference_word(reference: Any | None) -> str:
    """What π_ref is, for the start table."""
    if reference is None:
        return "none"
    return "the base, adapter off" if isinstance(reference, lora.AdapterOff) else "a copy of the policy"


def precision(dtype: Any, autocast: bool) -> str:
    """float32, or "float32 weights, bfloat16 autocast"."""
    name = str(dtype).removeprefix("torch.")
    return f"{name} weights, bfloat16 autocast" if autocast else name
