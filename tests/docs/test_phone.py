"""Every page of the site on a phone: what is wide scrolls in its own box, and never the page."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from docs.browser import browsing, is_here

ROOT = Path(__file__).parents[2]
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_here(), reason="no chromium and chromedriver (scripts/_browser)"),
    pytest.mark.skipif(
        find_spec("mkdocs") is None or not (ROOT / "docs" / "rules").exists(),
        reason="the pages are not generated here (scripts/docs)",
    ),
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        check=True,
        timeout=600,
    )
    return folder


@pytest.fixture(scope="module")
def phone(site: Path) -> Iterator[tuple[Any, str]]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with browsing() as browser:
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
                yield browser, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def width(browser: Any, address: str) -> int:
    browser.get(address)
    return int(browser.execute_script("return document.documentElement.scrollWidth"))


def test_no_page_is_wider_than_a_phone(site: Path, phone: tuple[Any, str]) -> None:
    browser, address = phone
    names = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html"))

    wide = {name: width(browser, f"{address}/{name}") for name in names}

    assert len(names) > 60
    assert {name: found for name, found in wide.items() if found > PHONE["width"]} == {}


def test_a_page_that_is_wider_would_be_noticed(phone: tuple[Any, str]) -> None:
    browser, _ = phone
    page = '<meta name="viewport" content="width=device-width"><p style="width: 700px">wide</p>'

    assert width(browser, f"data:text/html,{page}") > PHONE["width"]
