"""The playground in a browser, served on loopback from the files that a site would hold."""

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from docs import playground_files
from docs.browser import browsing, is_here
from tests.cli.test_also import STALE

PATIENCE = 240
"""Seconds, for a machine under load on which Python starts inside a browser."""


def test_the_sources_hold_the_linter_and_nothing_that_needs_torch() -> None:
    names = zipfile.ZipFile(io.BytesIO(playground_files.sources())).namelist()

    assert "gradkeeper/lint/check.py" in names
    assert "gradkeeper/report/statement/assets/page.html" in names
    assert not [one for one in names if one.split("/")[1] in ("engine", "watcher", "checkpoint")]
    assert playground_files.sources() == playground_files.sources()


class Served(SimpleHTTPRequestHandler):
    asked: list[str]

    def __init__(self, *words: Any, asked: list[str], **more: Any) -> None:
        self.asked = asked
        super().__init__(*words, **more)

    def log_request(self, *_: object) -> None:
        self.asked.append(self.path)


@pytest.fixture(scope="module")
def page() -> Iterator[tuple[Any, list[str]]]:
    """The page, loaded, and what it asked for."""
    if not is_here():
        pytest.skip("no chromium and chromedriver here (scripts/_browser)")
    if not playground_files.is_here():
        pytest.skip("Pyodide is not here (python docs/playground_files.py)")
    playground_files.main([])
    asked: list[str] = []
    folder = str(playground_files.PAGE)
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Served, directory=folder, asked=asked)
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with browsing() as browser:
                browser.get(f"http://127.0.0.1:{server.server_port}/index.html")
                until(browser, "1 finding")
                yield browser, asked
        finally:
            server.shutdown()
            thread.join()


def until(browser: Any, state: str) -> None:
    wait(lambda: get(browser, "state"), lambda said: said == state)


def wait(look: Callable[[], str], good: Callable[[str], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not good(seen := look()):
        assert time.monotonic() < limit, f"waited in vain; it says {seen!r}"
        time.sleep(0.1)


def get(browser: Any, name: str) -> str:
    return str(browser.execute_script(f"return document.getElementById('{name}').innerText"))


def type_in(browser: Any, text: str) -> None:
    """And wait for nothing: the page says when it has checked."""
    browser.execute_script(
        "const code = document.getElementById('code'); code.value = arguments[0];"
        "document.getElementById('state').textContent = '';"
        "code.dispatchEvent(new Event('input'));",
        text,
    )


def test_a_loop_gets_its_findings_its_fix_and_its_story(page: tuple[Any, list[str]]) -> None:
    browser, _ = page
    type_in(browser, STALE)
    until(browser, "1 finding")

    assert "line 7 GK101 stale-gradient" in get(browser, "findings")
    assert "step() applies the gradient of line 6 a second time" in get(browser, "findings")
    assert "+    optimizer.zero_grad()" in get(browser, "diff")
    marked = browser.execute_script("return document.querySelector('#numbers .error').innerText")
    assert marked == "7"
    statement = browser.execute_script("return document.getElementById('statement').srcdoc")
    assert "optimizer.step()" in statement


def test_the_fix_can_be_applied(page: tuple[Any, list[str]]) -> None:
    browser, _ = page
    type_in(browser, STALE)
    until(browser, "1 finding")

    browser.execute_script("document.getElementById('apply').click()")
    until(browser, "Nothing found")

    written = browser.execute_script("return document.getElementById('code').value")
    assert written == f"{STALE}    optimizer.zero_grad()\n"
    assert browser.execute_script("return document.getElementById('fix').hidden")


def test_every_rule_s_example_can_be_chosen(page: tuple[Any, list[str]]) -> None:
    browser, _ = page

    rules = browser.execute_script(
        "return [...document.getElementById('examples').options].map((one) => one.text)"
    )
    browser.execute_script(
        "const some = document.getElementById('examples');"
        "document.getElementById('state').textContent = '';"
        "some.selectedIndex = [...some.options].findIndex((one) => one.text.startsWith('GK301'));"
        "some.dispatchEvent(new Event('change'));"
    )
    until(browser, "1 finding")

    assert "GK101 stale-gradient" in rules
    assert "GK301 clip-scaled-gradient" in get(browser, "findings")


def test_what_cannot_be_read_and_what_does_not_train_is_said(page: tuple[Any, list[str]]) -> None:
    browser, _ = page

    type_in(browser, "for x in :\n")
    until(browser, "1 finding")
    assert "GK000 unparsable" in get(browser, "findings")
    type_in(browser, "print('<b>hello</b>')\n")

    until(browser, "Nothing found: no training loop was seen")
    assert browser.execute_script("return document.getElementById('story').hidden")


def test_markup_in_the_code_stays_text(page: tuple[Any, list[str]]) -> None:
    browser, _ = page
    hostile = STALE.replace("optimizer.step()", "optimizer.step()  # </pre><img src=x id=evil>")
    type_in(browser, hostile)
    until(browser, "1 finding")

    assert browser.execute_script("return document.getElementById('evil')") is None


def test_all_that_it_asks_for_lies_in_its_folder(page: tuple[Any, list[str]]) -> None:
    browser, asked = page

    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)"
    )
    complaints = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]

    assert "/pyodide/pyodide.asm.wasm" in asked
    assert "/gradkeeper.zip" in asked
    assert set(loaded) == {browser.execute_script("return location.origin")}
    assert complaints == [], json.dumps(complaints)


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_screen(page: tuple[Any, list[str]], width: int) -> None:
    browser, _ = page
    type_in(browser, STALE)
    until(browser, "1 finding")

    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False},
    )

    across = browser.execute_script("return document.documentElement.scrollWidth")
    assert across <= width
