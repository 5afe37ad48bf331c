"""The whole report, written by its command and opened in headless Chromium.

Without chromium and chromedriver (Debian: chromium, chromium-driver) this test fails, because a page that nobody opened
is not tested; GRPO_NO_CHROMIUM=1 says that a machine cannot have them.
"""

from __future__ import annotations

import os
import shutil

import pytest

from grpo.report import figures
from grpo.report.__main__ import main

EXPECTED = {
    "forest", "tuning", "curves_tokens", "curves_steps", "curves_seconds", "variance",
    *(f"diagnostics_{section}" for section in ("reward", "evaluation", "stability", "objective", "length")),
}  # fmt: skip


@pytest.fixture(scope="module")
def out(clip_high, tmp_path_factory):
    """Everything that the command writes."""
    folder = tmp_path_factory.mktemp("report")
    assert main([str(clip_high), "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def browser():
    """A browser that keeps the console's messages."""
    if os.environ.get("GRPO_NO_CHROMIUM"):
        pytest.skip("GRPO_NO_CHROMIUM is set")
    from selenium import webdriver

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    assert chromium, "install chromium, or set GRPO_NO_CHROMIUM=1"
    assert driver, "install chromium-driver, or set GRPO_NO_CHROMIUM=1"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1300,900"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


def test_files(out):
    assert {path.name for path in out.iterdir()} == {"report.html", "report.md", "table.tex", "summary.csv", "figures"}
    pictures = {path.name: path for path in (out / "figures").iterdir()}
    assert set(pictures) == {f"{name}.{kind}" for name in EXPECTED for kind in ("png", "pdf")}
    assert pictures["forest.pdf"].read_bytes().startswith(b"%PDF")
    assert pictures["forest.png"].read_bytes().startswith(b"\x89PNG")
    text = (out / "report.md").read_text(encoding="utf-8")
    assert text.count("](figures/") == len(EXPECTED)


def test_the_page_in_a_browser(out, browser):
    browser.get((out / "report.html").as_uri())
    errors = [each for each in browser.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]
    assert errors == []
    messages = [each["message"] for each in browser.get_log("performance")]
    sent = [message for message in messages if '"Network.requestWillBeSent"' in message]
    assert sent
    assert all('"url":"file:' in each or '"url":"data:' in each for each in sent)

    seen = browser.execute_script(
        "return [...document.images].map(i => [i.closest('figure').id, i.complete ? i.naturalWidth : 0, i.alt])"
    )
    assert {name.removeprefix("figure-") for name, _, _ in seen} == EXPECTED
    assert all(width > 0 and len(alt) > 10 for _, width, alt in seen)

    # the answer and the forest plot on the first screen
    forest = "document.querySelector('#figure-forest img')"
    assert 0 < browser.execute_script(f"return {forest}.getBoundingClientRect().bottom") <= 900
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_tables_sort_on_click(out, browser):
    browser.get((out / "report.html").as_uri())

    def column() -> list[str]:
        rows = "#table-arms tbody tr td:first-child"
        return browser.execute_script(f"return [...document.querySelectorAll('{rows}')].map(c => c.innerText.trim())")

    def click(head: int) -> None:
        from selenium.webdriver.common.by import By

        browser.find_element(By.CSS_SELECTOR, f"#table-arms th:nth-child({head}) button").click()

    assert column() == ["eps_0.20", "eps_0.28", "no_upper"]
    click(2)  # test/avg@8, largest first: .570, .508, .411
    assert column() == ["eps_0.28", "eps_0.20", "no_upper"]
    click(2)
    assert column() == ["no_upper", "eps_0.20", "eps_0.28"]
    click(1)  # names, A first
    assert column() == ["eps_0.20", "eps_0.28", "no_upper"]


def test_tabs_switch(out, browser):
    from selenium.webdriver.common.by import By

    browser.get((out / "report.html").as_uri())

    def shown() -> list[str]:
        panels = browser.find_elements(By.CSS_SELECTOR, "[role=tabpanel]")
        return [panel.get_attribute("id") for panel in panels if panel.is_displayed()]

    assert shown() == ["panel-curves_tokens"]
    browser.find_element(By.ID, "tab-curves_seconds").click()
    assert shown() == ["panel-curves_seconds"]


def test_one_figure_by_name(clip_high, tmp_path, capsys):
    assert main([str(clip_high), "--out", str(tmp_path), "--only", "variance"]) == 0
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["variance.pdf", "variance.png"]
    assert not (tmp_path / "report.html").exists()
    assert main([str(clip_high), "--out", str(tmp_path), "--only", "forrest"]) == 1
    assert "there is no figure forrest here; there are forest, tuning" in capsys.readouterr().err


def test_the_same_records_give_the_same_picture(found, tmp_path):
    """Byte for byte, so that a committed report changes only where its numbers do."""
    for name in ("one", "other"):
        figures.draw(found, tmp_path / name, "forest")
    for kind in ("png", "pdf"):
        one, other = (tmp_path / name / f"forest.{kind}" for name in ("one", "other"))
        assert one.read_bytes() == other.read_bytes()


def test_mistakes_are_sentences(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main([]) == 1
    assert "--help lists the options" in capsys.readouterr().err
