"""A batch of numbers: what one optimizer update sees, written by hand or by a test. JSON → `Numbers`, or sentences.

    logp          [B][T] log π of the sampled tokens now, the only required column besides the rewards
    logp_old, logp_ref, logp_rollout     log π_old, log π_ref, log μ;  without logp_old it is the first update: ρ = 1
    mask          [B][T] 1 = the policy sampled the token; without it every given token counts
    rewards       [B], null = no reward applies; or rewards_per_func [B][R] with reward_weights [R]
    group_ids     [B] prompts; without it all completions answer one prompt
    truncated     [B] true = cut by the length limit;   accuracy [B] 1 = right, without it the (first) reward
    entropy, kl_exact [B][T];   vocab_old, vocab_new [B][T][V] and token_ids [B][T] for DPPO's top-k forms
    tokens        [B][T] their text, to be shown;   prompt, note: for the reader

Rows may have different lengths, or be padded where the mask is 0.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo.config import sentences
from grpo.errors import ConfigError, Mistake

LOGPS = ("logp", "logp_old", "logp_ref", "logp_rollout")
SHIPPED = Path(__file__).parent / "batches"
FIELDS = (
    *LOGPS, "mask", "rewards", "rewards_per_func", "reward_weights", "group_ids", "truncated", "accuracy", "entropy",
    "kl_exact",
    "vocab_old", "vocab_new", "token_ids", "tokens", "prompt", "note",
)  # fmt: skip


@dataclass(frozen=True)
class Numbers:
    """A checked batch. Rows are padded to the longest: `mask` says which tokens count. NaN = no reward applies."""

    name: str
    columns: dict[str, list[list[float]]]
    """logp, logp_old, logp_ref, logp_rollout, entropy, kl_exact: those that were given, [B][T]."""
    mask: list[list[bool]]
    rewards: list[list[float]]
    weights: list[float]
    groups: list[int]
    truncated: list[bool]
    accuracy: list[float]
    tokens: list[list[str]]
    vocabulary: dict[str, Any] = field(default_factory=dict)
    prompt: str = ""
    notes: tuple[str, ...] = ()


def shipped() -> list[str]:
    """Names of the batches inside the package."""
    return sorted(file.stem for file in SHIPPED.glob("*.json"))


def read(word: str) -> Numbers:
    """`figure_7_1`, a JSON file, or `file.json#NAME` for one of a file with several `batches`."""
    place, _, name = word.partition("#")
    path = SHIPPED / f"{place}.json" if place in shipped() else Path(place)
    if not path.is_file():
        raise _wrong("batch", f"there is no file {place}, and the batches by name are {', '.join(shipped())}")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise _wrong("batch", f"{place} is not JSON: {error}") from None
    if isinstance(data, dict) and isinstance(data.get("batches"), dict):
        names = data["batches"]
        if name not in names:
            shown = f"has no batch {name}" if name else f"holds {len(names)} batches"
            raise _wrong("batch", f"{place} {shown}; say batch={place}#NAME with one of {', '.join(names)}")
        data = names[name]
    elif name:
        raise _wrong("batch", f"{place} is a single batch; say batch={place}")
    return check(data, name or path.stem)


def _wrong(key: str, sentence: str) -> ConfigError:
    return ConfigError([Mistake(key, sentence)])


def check(data: Any, name: str = "batch") -> Numbers:
    """Plain data → a batch whose fields have the right shapes and no NaN; all mistakes at once."""
    if not isinstance(data, dict):
        raise _wrong("batch", f"{name} is no mapping of fields such as logp and rewards")
    reader = _Reader(data, name)
    batch = reader.batch()
    if batch is None:
        raise ConfigError(reader.mistakes)
    return batch


class _Reader:
    """Collects the mistakes of a batch, one per field."""

    def __init__(self, data: dict[str, Any], name: str) -> None:
        self.data, self.name = data, name
        self.mistakes: list[Mistake] = []

    def say(self, key: str, sentence: str) -> None:
        if all(m.key != key for m in self.mistakes):
            self.mistakes.append(Mistake(key, sentence))

    def batch(self) -> Numbers | None:
        for key in self.data:
            if key not in FIELDS:
                self.say(key, f"there is no such field{sentences.meant(key, FIELDS)}")
        if not self._present():
            return None
        rows = self.data["logp"]
        self.lengths = [len(row) if isinstance(row, list) else -1 for row in rows]
        self.size, self.width = len(rows), max(self.lengths)
        if -1 in self.lengths:
            self.say("logp", f"is a list of lists, one per completion; entry {self.lengths.index(-1) + 1} is none")
            return None
        mask = self._mask()
        names = [n for n in (*LOGPS, "entropy", "kl_exact") if self.data.get(n) is not None]
        columns = {n: self._numbers(n, mask) for n in names}
        rewards, weights, notes = self._rewards()
        tokens = self._table("tokens", str, "text") if self.data.get("tokens") is not None else None
        made = Numbers(
            name=self.name,
            columns=columns,
            mask=mask,
            rewards=rewards,
            weights=weights,
            groups=[int(g) for g in self._row("group_ids", int, "a whole number", 0)],
            truncated=[bool(t) for t in self._row("truncated", bool, "true or false", False)],
            accuracy=self._accuracy(rewards),
            tokens=tokens or [[""] * self.width for _ in rows],
            vocabulary=self._vocabulary(),
            prompt=str(self.data.get("prompt", "")),
            notes=notes,
        )
        return None if self.mistakes else made

    def _present(self) -> bool:
        if not isinstance(self.data.get("logp"), list) or not self.data["logp"]:
            self.say("logp", "is missing: the log-probabilities of the sampled tokens, a list per completion")
        if self.data.get("rewards") is None and self.data.get("rewards_per_func") is None:
            self.say("rewards", "is missing: one number per completion, null where no reward applies")
        return not self.mistakes

    def _table(self, key: str, kind: Any, word: str) -> list[list[Any]]:
        """[B][T] of one type, padded with its zero."""
        table = self.data[key]
        lengths = [len(r) if isinstance(r, list) else -1 for r in table] if isinstance(table, list) else []
        if len(lengths) != self.size:
            self.say(key, f"has {len(lengths)} completions, logp has {self.size}")
            return []
        for i, (mine, wanted) in enumerate(zip(lengths, self.lengths, strict=True)):
            if mine != wanted:
                shape = "is no list" if mine < 0 else f"has {mine} tokens"
                self.say(key, f"{shape} for completion {i + 1}, logp has {wanted}")
                return []
        for i, row in enumerate(table):
            for t, value in enumerate(row):
                if not isinstance(value, kind):
                    self.say(key, f"of completion {i + 1}, token {t + 1} is {json.dumps(value)}, not {word}")
                    return []
        empty = "" if kind is str else 0
        return [[*row, *[empty] * (self.width - len(row))] for row in table]

    def _mask(self) -> list[list[bool]]:
        if self.data.get("mask") is None:
            return [[t < length for t in range(self.width)] for length in self.lengths]
        table = self._table("mask", (bool, int), "0 or 1")
        return [[bool(x) and t < self.lengths[i] for t, x in enumerate(row)] for i, row in enumerate(table)]

    def _numbers(self, key: str, mask: list[list[bool]]) -> list[list[float]]:
        """A column of numbers; where the mask is 0 anything goes, also NaN."""
        table = self._table(key, (int, float, type(None)), "a number")
        if not table or not mask:
            return []
        for i, row in enumerate(table):
            for t, value in enumerate(row):
                if not mask[i][t]:
                    continue
                place = f"of completion {i + 1}, token {t + 1} is"
                if value is None or not math.isfinite(value):
                    self.say(key, f"{place} {_shown(value)}, but the token counts; give a number or set its mask to 0")
                elif key in LOGPS and value > 1e-9:
                    self.say(key, f"{place} {value:g}; the logarithm of a probability is at most 0")
        return [[0.0 if v is None else float(v) for v in row] for row in table]

    def _row(self, key: str, kind: Any, word: str, default: Any) -> list[Any]:
        """[B] of one type."""
        values = self.data.get(key)
        if values is None:
            return [default] * self.size
        if not isinstance(values, list) or len(values) != self.size:
            self.say(key, f"has {len(values) if isinstance(values, list) else 'no'} entries, logp has {self.size}")
            return [default] * self.size
        for i, value in enumerate(values):
            if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
                self.say(key, f"of completion {i + 1} is {json.dumps(value)}, not {word}")
                return [default] * self.size
        return values

    def _reward(self, key: str, place: str, value: Any) -> float:
        if value is None:
            return math.nan
        if not isinstance(value, int | float) or not math.isfinite(value):
            self.say(key, f"of {place} is {_shown(value)}; give a finite number, or null where no reward applies")
            return math.nan
        return float(value)

    def _rewards(self) -> tuple[list[list[float]], list[float], tuple[str, ...]]:
        """[B][R], their weights, and what was not read."""
        table, weights = self.data.get("rewards_per_func"), self.data.get("reward_weights")
        if table is None or (self.data.get("rewards") is not None and weights is None):
            kind = (int, float, type(None))
            row = self._row("rewards", kind, "a number or null", 0.0)
            unread = ("rewards_per_func is not read: reward_weights is missing",) if table is not None else ()
            return [[self._reward("rewards", f"completion {i + 1}", r)] for i, r in enumerate(row)], [1.0], unread
        shapes = {len(r) if isinstance(r, list) else -1 for r in table} if isinstance(table, list) else {-1}
        if len(shapes) != 1 or -1 in shapes or len(table) != self.size:
            self.say("rewards_per_func", f"is a list of {self.size} lists of equal length, one per completion")
            return [[0.0]] * self.size, [1.0], ()
        count = shapes.pop()
        weights = [1.0] * count if weights is None else weights
        if not isinstance(weights, list) or len(weights) != count:
            self.say("reward_weights", f"needs {count} numbers, one for each column of rewards_per_func")
            return [[0.0]] * self.size, [1.0], ()
        made = [
            [self._reward("rewards_per_func", f"completion {i + 1}", r) for r in row] for i, row in enumerate(table)
        ]
        return made, [self._reward("reward_weights", "a function", w) for w in weights], ()

    def _accuracy(self, rewards: list[list[float]]) -> list[float]:
        if self.data.get("accuracy") is None:
            return [row[0] for row in rewards]
        values = self._row("accuracy", (int, float, type(None)), "1, 0 or null", 0.0)
        return [self._reward("accuracy", f"completion {i + 1}", v) for i, v in enumerate(values)]

    def _vocabulary(self) -> dict[str, Any]:
        """vocab_old, vocab_new [B][T][V] and token_ids [B][T], all or none."""
        names = [n for n in ("vocab_old", "vocab_new", "token_ids") if self.data.get(n) is not None]
        if not names:
            return {}
        for name in ("vocab_old", "vocab_new", "token_ids"):
            if name not in names:
                self.say(name, f"is missing beside {names[0]}")
        found = {n: self._table(n, int if n == "token_ids" else list, "a list of probabilities") for n in names}
        sizes = {len(x) for n in names if n != "token_ids" for row in found[n] for x in row if x}
        if len(sizes) > 1:
            self.say("vocab_new", f"has distributions of different lengths, {min(sizes)} to {max(sizes)}")
        size = max(sizes, default=1)
        for n in names:
            if n != "token_ids":
                found[n] = [[x or [1.0 / size] * size for x in row] for row in found[n]]
        return found


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)
