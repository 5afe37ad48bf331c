"""Rebuilds the embedded policy: supervised warm-up of the tiny Llama on `arithmetic`.

    python experiments/warmup/build.py --seed 0 --out src/grpo/models/tiny       (about a minute on one core)

The text is a mix of direct answers ("37+5=\\boxed{42}") and worked ones ("37+5=7+5=12,3+0+1=4 \\boxed{42}"), both with
a share of wrong answers. The policy comes out unsure: it answers mostly directly and mostly wrong, while its worked
answers are right far more often, and reinforcement learning can find that. Only problems of the train split are shown.
Another --seed gives another base policy; train it with model=hf model.path=<out> model.lr=3e-4.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from grpo.models.architecture import make_model, make_tokenizer
from grpo.models.load import export
from grpo.tasks.arithmetic import Arithmetic


@dataclass(frozen=True)
class Recipe:
    """What the warm-up shows; found by trial, see README.md beside this file."""

    digits: int = 2
    """Digits of the task."""
    steps: int = 450
    """Optimizer steps."""
    batch: int = 64
    """Texts per step."""
    lr: float = 2e-3
    """Peak learning rate of AdamW; linear warm-up over 5 %, cosine to a tenth."""
    worked: float = 0.3
    """Share of texts with a worked answer."""
    wrong_worked: float = 0.05
    """Share of worked answers whose box is wrong."""
    wrong_direct: float = 0.9
    """Share of direct answers that are wrong."""


def direct(a: int, b: int, answer: int) -> str:
    return f"\\boxed{{{answer}}}"


def worked(a: int, b: int, answer: int) -> str:
    """Column by column from the right, carry last, then the box: 37+5 -> "7+5=12,3+0+1=4 "."""
    columns: list[str] = []
    carry = 0
    while a or b or not columns:
        digits, a, b = (a % 10, b % 10), a // 10, b // 10
        total = sum(digits) + carry
        columns.append(f"{digits[0]}+{digits[1]}{'+1' if carry else ''}={total}")
        carry = total // 10
    return f"{','.join(columns)} \\boxed{{{answer}}}"


def slip(answer: int, draw: random.Random) -> int:
    """A wrong answer of the usual kind: one digit off, a carry lost or invented."""
    while (wrong := answer + draw.choice((-10, -1, 1, 10, 9, -9, 100))) < 0:
        pass
    return wrong


def sample(task: Arithmetic, recipe: Recipe, draw: random.Random) -> tuple[str, str]:
    """(prompt, completion) of one training problem."""
    question = task.question("train", draw.randrange(task.size("train")))
    a, b = map(int, question.text.rstrip("=").split("+"))
    if draw.random() < 0.5:
        a, b = b, a
    form, wrong = (worked, recipe.wrong_worked) if draw.random() < recipe.worked else (direct, recipe.wrong_direct)
    return f"{a}+{b}=", form(a, b, slip(a + b, draw) if draw.random() < wrong else a + b)


def batch_of(tokenizer, task: Arithmetic, recipe: Recipe, draw: random.Random) -> tuple[Tensor, Tensor]:
    """ids [N, T] right-padded, and labels [N, T]: the completion and its EOS, -100 on prompt and padding."""
    rows = [sample(task, recipe, draw) for _ in range(recipe.batch)]
    encoded = [(tokenizer.encode(p), tokenizer.encode(c, add_special_tokens=False)) for p, c in rows]
    width = max(len(p) + len(c) + 1 for p, c in encoded)
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    labels = torch.full((len(rows), width), -100)
    for i, (prompt, completion) in enumerate(encoded):
        text = torch.tensor([*prompt, *completion, tokenizer.eos_token_id])
        ids[i, : len(text)] = text
        labels[i, len(prompt) : len(text)] = text[len(prompt) :]
    return ids, labels


def build(seed: int, out: Path, recipe: Recipe) -> None:
    """Trains and writes the folder, with the recipe beside the weights."""
    tokenizer, model = make_tokenizer(), make_model(seed)
    task = Arithmetic(digits=recipe.digits)
    draw = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(1, recipe.steps // 20)
    shape = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, 1.0, warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps - warm, recipe.lr / 10),
        ],
        [warm],
    )
    start = time.time()
    for step in range(recipe.steps):
        ids, labels = batch_of(tokenizer, task, recipe, draw)
        logits = model(input_ids=ids).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        shape.step()
        if step % 100 == 99:
            print(f"step {step + 1}/{recipe.steps}  loss {loss.item():.3f}  {time.time() - start:.0f} s", flush=True)
    export(model.eval(), tokenizer, out)
    (out / "recipe.json").write_text(json.dumps({"seed": seed, **vars(recipe)}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="initial weights and order of the texts")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; replaced if it exists")
    for name, value in vars(Recipe()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    options = vars(parser.parse_args())
    seed, out = options.pop("seed"), options.pop("out")
    torch.set_num_threads(1)
    build(seed, out, Recipe(**options))


if __name__ == "__main__":
    main()
