"""report.md, table.tex, summary.csv and the text of report.html: content and escaping. No figure is drawn here."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

import pytest

from grpo.report import latex, markdown, page, show, summary
from grpo.report.findings import findings
from grpo.report.formats import interval, number, seconds, share, signed, tokens
from grpo.report.reading import load
from tests.report.conftest import BASE, BETTER, sixty_fourths
from tests.report.synthetic import Sweep

ODD = "a$b_{c}<i>&|`x`%#~^\\end"


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Names and texts that mean something in HTML, LaTeX or Markdown."""
    claim = {"text": "<script>alert(1)</script> & 50 % of _all_", "source": "<b>"}
    folder = tmp_path_factory.mktemp("odd")
    sweep = Sweep(folder, name="<i>odd</i>", question={"claim": claim, "baseline": "grpo"})
    sweep.arm("grpo", sixty_fourths(BASE)).arm(ODD, sixty_fourths(BETTER), "surrogate.high=0.28").write()
    samples = folder / ODD / "seed=0" / "samples.jsonl"
    samples.write_text(samples.read_text().replace("37+30: ", "<img src=x onerror=1> \\ud800 "))
    return findings(load(folder))


class Tags(HTMLParser):
    """Every tag with its attributes, and whether each non-void one is closed."""

    VOID = ("meta", "link", "img")

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} closes something else"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)&", line.strip().removesuffix("\\\\"))]


def test_numbers_as_they_are_written():
    assert (share(0.7136), signed(0.0213), signed(-0.004), share(None), share(float("nan"))) == (
        "0.714", "+0.021", "−0.004", "–", "–")  # fmt: skip
    assert interval(0.004, 0.038) == "[+0.004, +0.038]"
    assert [tokens(n) for n in (950, 40_000, 400_000, 999_600, 1_250_000)] == ["950", "40k", "400k", "1M", "1.25M"]
    assert [seconds(s) for s in (4.25, 47, 725, 7651)] == ["4.2 s", "47 s", "12:05", "2:07:31"]
    assert [number(n) for n in (1700, 0.00412, 1e-7, None)] == ["1,700", "0.00412", "1e−07", "–"]


def test_markdown_tables(found):
    text = markdown.text(found, {})
    # mean of (36+38+34+37+34+40)/6 = 36.5 of 64 = .5703; sd: −.5 1.5 −2.5 .5 −2.5 3.5 → √(27.5/5)/64 = .0366
    assert "| eps\\_0.28 | 0.570 | 0.037 |" in text
    assert "| no\\_upper | 0.500 | 0.531 | 0.250 † | 0.516 | 0.125 | 0.547 |" in text
    assert "+0.062 \\[+0.050, +0.075\\]" in text
    tables = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(widths) == 1, table


def test_markdown_escapes(odd):
    text = markdown.text(odd, {})
    assert "\\<script\\>" in text
    assert "<script>" not in text
    assert "a\\$b\\_\\{c\\}\\<i\\>&\\|\\`x\\`" in text


def test_table_tex(found):
    text = latex.text(found)
    spec = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1]
    body = [cells(line) for line in text.splitlines() if line.endswith("\\\\")]
    assert spec == "lrrrrrrl"
    assert {len(row) for row in body} == {8}
    assert body[2][:4] == ["eps\\_0.28", "0.570 (0.037)", "+0.062", "[+0.050, +0.075]"]
    assert body[3][5] == "2/6"
    for name in ("table", "tabular"):
        assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}") == 1


def test_table_tex_escapes(odd):
    text = latex.text(odd)
    row = next(line for line in text.splitlines() if line.strip().startswith("a\\$b"))
    assert len(cells(row)) == 8
    assert "a\\$b\\_\\{c\\}\\textless{}i\\textgreater{}\\&\\textbar{}" in row
    assert "\\%\\#\\textasciitilde{}\\textasciicircum{}\\textbackslash{}end" in row
    assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))


def test_summary_has_a_row_per_run(found):
    rows = list(csv.DictReader(io.StringIO(summary.text(found.sweep))))
    assert len(rows) == 18 + 12
    assert sum(row["counted"] == "1" for row in rows) == 18
    wild = next(row for row in rows if (row["arm"], row["seed"], row["phase"]) == ("no_upper", "2", "final"))
    assert (wild["state"], wild["score"], wild["score_from"]) == ("diverged", "0.25", "validation/avg@4")
    assert (wild["generated_tokens"], wild["greedy"]) == ("20000.0", "")
    tuned = [row for row in rows if row["phase"] == "tune"]
    assert {row["point"] for row in tuned} == {"optimizer.lr=0.0001", "optimizer.lr=0.0002"}
    assert rows[0]["folder"] == "eps_0.20/seed=0"


def test_the_page_escapes_and_closes_its_tags(odd, tmp_path):
    text = page.text(odd, {}, tmp_path)
    tags = Tags(text)
    assert not tags.open
    assert sum(tag == "script" for tag, _ in tags.tags) == 1  # its own
    assert not any(tag == "img" for tag, _ in tags.tags)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "&lt;img src=x onerror=1&gt; ?" in text  # a sample, its lone surrogate replaced


def test_the_page_needs_nothing_else(found, tmp_path):
    tags = Tags(page.text(found, {}, tmp_path)).tags
    addresses = [value for _, attrs in tags for name, value in attrs.items() if name in ("src", "href")]
    assert all(address.startswith(("#", "data:")) for address in addresses)


def test_the_page_answers_first(found, tmp_path):
    text = page.text(found, {}, tmp_path)
    parts = ["<h1>At 40,000 generated tokens, eps_0.28 is better", "clip-higher keeps rare right tokens alive",
             "+0.062 [+0.050, +0.075]", 'id="arms"', 'id="tuning"', 'id="curves"', 'id="diagnostics"', 'id="variance"',
             'id="settings"', 'id="samples"', 'id="again"', 'id="details"']  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_page_shows_samples_of_the_same_prompt(found, tmp_path):
    """Step 10 is the last that all arms logged: the diverged run ended there, but in block 2; block 0 has step 20."""
    text = page.text(found, {}, tmp_path)
    assert "Seed 0, step 20" in text
    assert text.count("37+30: \\boxed{67}") == 3 * 2  # 3 arms; of samples 0, 1, 2 the first and the last


def test_missing_runs_come_with_the_command(tmp_path):
    sweep = Sweep(tmp_path).arm("a", {0: 0.5, 1: None}).arm("b", {0: 0.5, 1: 0.5}, "x=1")
    text = page.text(findings(load(sweep.write())), {}, tmp_path)
    assert "a seed 1: done, but without the endpoint" in text
    assert "<pre>python -m grpo.sweep clip_high</pre>" in text


def test_the_screen_says_once_why_there_is_no_verdict(tmp_path):
    sweep = Sweep(tmp_path, question={"profile": "quick"})
    sweep.arm("a", {0: 0.5, 1: 0.5}).arm("b", {0: 0.75, 1: 0.75}, "x=1").arm("c", {0: 0.25, 1: 0.25}, "x=2")
    text = "\n".join(show.lines(findings(load(sweep.write()))))
    assert text.count("profile=quick") == 1
    assert "b against a    +0.250 [+0.250, +0.250]   exploratory" in text


def test_the_screen(found):
    lines = show.lines(found)
    assert lines[0] == (
        "clip_high · arithmetic, tiny · 6 blocks · 40,000 generated tokens · endpoint test/avg@8, margin 0.03"
    )
    assert lines[1].startswith("  eps_0.28 against eps_0.20    +0.062 [+0.050, +0.075]   better (Holm p < .001)")
    assert lines[1].endswith("6/6 healthy")
    assert lines[2].endswith("4/6 healthy, 1 diverged, 1 collapsed")
