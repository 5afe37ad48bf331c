"""How fast `reward=math` is: plain numbers in the own layer, LaTeX in the pool, junk against its limit.

    python experiments/math_speed/measure.py

Prints a table and writes it to experiments/math_speed/table.md. Budgets: 2,000 plain numbers and 100 expressions a
second (two workers), junk no more than its limit. Rates per second of the processor do not depend on what else runs.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from grpo.rewards.math import Math

HERE = Path(__file__).resolve().parent
SECONDS = 2.0  # limit of one comparison, in the junk row
JUNK = (
    r"\boxed{\sqrt{9^{9^{9^{9}}}}}",
    r"\boxed{(10^{10})!}",
    r"\boxed{\log(\log(\log(9^{9^{9^9}})))}",
    r"\boxed{2^{(10^{12})}\pi}",
)
RAW = """
import sys, time
from math_verify import parse, verify
pairs = eval(sys.stdin.read())
[verify(parse(g), parse(a)) for g, a in pairs[:20]]
begun = time.process_time()
[verify(parse(g), parse(a)) for g, a in pairs]
print(time.process_time() - begun)
"""


def numbers(count: int, draw: random.Random) -> list[tuple[str, str]]:
    """(gold, completion): integers, decimals, fractions, thousands, powers of ten; half of them right."""
    pairs = []
    for _ in range(count):
        n, d = draw.randint(-9999, 9999), draw.choice([1, 2, 4, 5, 8, 3, 7])
        gold = str(n) if d == 1 else f"{n}/{d}"
        if draw.random() < 0.5:
            n += 1
        kinds = [rf"\frac{{{n}}}{{{d}}}", f"{n}/{d}", rf"x = \dfrac{{{2 * n}}}{{{2 * d}}}"]
        kinds += [f"{n:,}", f"{n}.0", rf"{n}\text{{ cm}}", rf"{n} \times 10^0"] if d == 1 else []
        pairs.append((gold, rf"Some words about it. So the answer is \boxed{{{draw.choice(kinds)}}}."))
    return pairs


def expressions(count: int, draw: random.Random) -> list[tuple[str, str]]:
    """(gold, completion) that only a parser can compare, no two alike; half of them right."""
    pairs = []
    for _ in range(count):
        a, b, c = (draw.randint(2, 99) for _ in range(3))
        wrong = int(draw.random() < 0.5)
        gold, answer = draw.choice(
            [
                (rf"{a}\sqrt{{{b}}}", rf"\sqrt{{{a * a * b + wrong}}}"),
                (rf"\frac{{{a}\pi}}{{{b}}}", rf"{a + wrong}\pi/{b}"),
                (f"{a}x+{b}", f"{b}+{a + wrong}x"),
                (f"x^2-{a * a}", f"(x-{a})(x+{a + wrong})"),
                (rf"{a}+{b}i", rf"{b}i+{a + wrong}"),
                (rf"\log_{{{a}}} {b}", rf"\frac{{\ln {b + wrong}}}{{\ln {a}}}"),
                (rf"[{a},\sqrt{{{a * a + c}}})", rf"[{a},\frac{{{a * a + c + wrong}}}{{\sqrt{{{a * a + c}}}}})"),
                (
                    rf"\begin{{pmatrix}}{a}\\{b}\end{{pmatrix}}",
                    rf"\begin{{pmatrix}}\frac{{{2 * a}}}{{2}}\\{b + wrong}\end{{pmatrix}}",
                ),
            ]
        )
        pairs.append((gold, rf"So the answer is \boxed{{{answer}}}."))
    return pairs


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall, and of the processor in this process and in children that have ended within the work."""
    wall, cpu = time.perf_counter(), _processor()
    work()
    return time.perf_counter() - wall, _processor() - cpu


def _processor() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def pooled(workers: int, pairs: list[tuple[str, str]]) -> None:
    """Score in a pool of its own, which has ended when this returns."""
    reward = Math(workers=workers, seconds=60.0)
    score(reward, pairs)
    reward.close()


def score(reward: Math, pairs: list[tuple[str, str]]) -> list[float | None]:
    """The rewards of pairs."""
    return reward(["q"] * len(pairs), [completion for _, completion in pairs], [gold for gold, _ in pairs])


def raw(pairs: list[tuple[str, str]]) -> float:
    """Processor seconds that math-verify alone needs, in one process without any limit, after twenty to warm up."""
    wrapped = repr([(rf"\boxed{{{gold}}}", completion) for gold, completion in pairs])
    done = subprocess.run([sys.executable, "-c", RAW], input=wrapped, capture_output=True, text=True, check=True)
    return float(done.stdout)


def rate(count: int, seconds: tuple[float, float]) -> str:
    return f"{count / seconds[0]:,.0f} a second, {count / seconds[1]:,.0f} a second of one processor"


def measure(count: int, workers: int) -> list[tuple[str, str]]:
    """(what, measured) of each row."""
    draw = random.Random(0)
    plain, latex = numbers(10 * count, draw), expressions(count, draw)
    rows = [("load average before", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")]
    reward = Math(workers=workers, seconds=60.0)
    rows.append(("plain numbers, own layer", rate(len(plain), timed(lambda: score(reward, plain)))))
    start = timed(lambda: pooled(workers, latex[:1]))
    rows.append(
        ("start of the pool: import, warm-up, one expression", f"{start[0]:.1f} s, {start[1]:.1f} s of processor")
    )
    score(reward, latex[:1])
    # A gold answer is read when it is first seen and then remembered, so the groups of a step do not pay for it.
    wall = timed(lambda: reward.gold_problems([gold for gold, _ in latex]))[0]
    rows.append(("new gold expressions, read once", f"{len(latex) / wall:,.0f} a second"))
    wall = timed(lambda: score(reward, latex))[0]
    reward.close()
    both = timed(lambda: pooled(workers, latex))[1] - start[1]
    rows.append((f"LaTeX expressions, {workers} workers, golds known", f"{len(latex) / wall:,.0f} a second"))
    rows.append(("LaTeX expressions with their golds", f"{len(latex) / both:,.0f} a second of one processor"))
    few = latex[: max(20, count // 4)]
    rows.append(("the same by math-verify alone", f"{len(few) / raw(few):,.0f} a second of one processor"))
    junk = Math(workers=workers, seconds=SECONDS)
    score(junk, latex[:1])
    limit = SECONDS * -(-len(JUNK) // workers)
    wall = timed(lambda: score(junk, [("7", completion) for completion in JUNK]))[0]
    rows.append((f"{len(JUNK)} junk towers, together at most {limit:g} s", f"{wall:.2f} s"))
    rows.append(("a good expression after them", f"{timed(lambda: score(junk, latex[1:2]))[0]:.2f} s"))
    junk.close()
    return [*rows, ("load average after", f"{os.getloadavg()[0]:.1f}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="expressions; ten times as many numbers")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    rows = measure(arguments.count, arguments.workers)
    table = "| what | measured |\n|---|---|\n" + "".join(f"| {name} | {number} |\n" for name, number in rows)
    (HERE / "table.md").write_text(table, encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
