"""The page in a browser: what a reader sees, clicks and types. Needs chromium and chromedriver."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docs.browser import browsing, is_here
from gradkeeper.cli import main
from gradkeeper.model import Event, Tape
from gradkeeper.model import events as ev
from tests.report.statement.telling import adopted, at, window

pytestmark = pytest.mark.skipif(
    not is_here(), reason="needs chromium and chromedriver: scripts/_browser"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as one:
        yield one


class Page:
    """An open statement, and the words for what one does with it."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def one(self, selector: str) -> Any:
        (found,) = self.all(selector)
        return found

    def text(self, selector: str) -> str:
        return str(self.one(selector).text)

    def press(self, keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(keys).perform()

    def click(self, selector: str) -> None:
        """As assistive tools do: wherever on the page it stands."""
        self.browser.execute_script("arguments[0].click()", self.one(selector))

    def shown(self) -> list[int]:
        """The windows that the statement's table lists."""
        bodies = self.all("table.statement tbody")
        return [int(one.get_attribute("data-place")) + 1 for one in bodies]

    def complaints(self) -> list[str]:
        return [str(one["message"]) for one in self.browser.get_log("browser")]

    def asked_for(self) -> list[str]:
        """Whatever the page loaded beside itself."""
        script = "return performance.getEntriesByType('resource').map((one) => one.name)"
        found: list[str] = self.browser.execute_script(script)
        return found


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens the statement of a tape; in the end the page must have had nothing to complain of."""

    def open_(events: list[Event]) -> Page:
        tape = Tape()
        for event in events:
            tape.record(event)
        tape.write(tmp_path / "run.tape")
        main(["replay", str(tmp_path / "run.tape"), "--report", str(tmp_path / "page.html")])
        browser.get(f"file://{tmp_path}/page.html")
        return Page(browser)

    yield open_

    assert Page(browser).complaints() == []
    assert Page(browser).asked_for() == []


def faulty(count: int = 30, *, at_window: int = 20) -> list[Event]:
    """So many windows; one of them forgets to zero."""
    tape: list[Event] = [adopted()]
    for number in range(1, count + 1):
        measured = ev.Measure(
            site=at(7),
            optimizer="optimizer",
            step=number,
            loss=1 / number,
            layers=("model.0",),
            norms=(0.5,),
        )
        tape += [measured, *window(2, zeroed=number != at_window)]
    return tape


def test_a_reader_sees_verdict_lanes_windows_curves_and_lines(opened: Any) -> None:
    page = opened(faulty())

    assert page.text("h1") == "1 finding"
    assert page.text("#timeline .lane-name") == "optimizer"
    assert len(page.all("#timeline g.window")) == 30
    assert len(page.all("#timeline text.pin")) == 1
    assert len(page.all("#curves polyline")) == 1
    assert page.text("table.layers tbody th") == "model.0"
    assert page.shown() == list(range(1, 13))


def test_a_finding_leads_to_its_window_and_back(opened: Any) -> None:
    page = opened(faulty())

    page.click("[data-jump='0']")

    assert page.text("#chosen").startswith("Window 20: optimizer, step 20: 2 backward calls spent")
    assert page.shown()[0] == 20
    page.click("table.statement button.pin")
    assert page.browser.switch_to.active_element.get_attribute("id") == "finding-0"


def test_keys_choose_zoom_search_and_help(opened: Any) -> None:
    page = opened(faulty())

    page.press("n")
    assert page.text("#chosen").startswith("Window 20:")
    page.press("\ue014")  # the right arrow
    assert page.text("#chosen").startswith("Window 21:")
    page.press("+")
    assert len(page.all("#timeline g.window")) == 15
    page.press("0")
    assert len(page.all("#timeline g.window")) == 30
    page.press("/")
    page.press("gk101")
    assert page.shown() == [20]
    assert len(page.all("#timeline g.faint")) == 29
    page.press("\ue00c")  # escape
    assert page.shown()[0] == 1
    page.press("?")
    assert page.one("#help").get_attribute("open") is not None
    page.press("\ue00c")
    assert page.one("#help").get_attribute("open") is None


def test_filters_and_the_pager_choose_what_is_listed(opened: Any) -> None:
    page = opened(faulty())

    page.click("#page-on")
    assert page.shown() == list(range(13, 25))
    page.click("#page-back")
    assert page.shown() == list(range(1, 13))
    page.click("#only")
    assert page.shown() == [20]
    assert page.one("#only").get_attribute("aria-pressed") == "true"


def test_light_and_dark_follow_the_button(opened: Any) -> None:
    page = opened(faulty(3, at_window=2))

    def paper() -> str:
        return str(page.one("body").value_of_css_property("background-color"))

    before = paper()
    page.press("t")
    assert paper() != before
    page.click("#theme")
    assert paper() == before


def test_twenty_thousand_windows_are_summed_up_and_can_be_looked_into(opened: Any) -> None:
    page = opened(faulty(20_000, at_window=12_345))

    assert page.all("#timeline g.window") == []
    assert 100 <= len(page.all("#timeline g.column")) <= 160
    assert len(page.all("#timeline rect.pin")) == 1

    page.press("n")

    assert page.text("#chosen").startswith("Window 12345: optimizer, step 12345")
    assert len(page.all("#timeline g.window")) == 40
    assert page.one("#overview").is_displayed()
    assert not page.one("#summed").is_displayed()


def test_many_windows_in_a_bar_say_how_many(opened: Any) -> None:
    page = opened(faulty(20_000, at_window=12_345))

    assert page.text("#summed").startswith("Each bar sums up about 125 windows")


def test_a_run_that_measured_nothing_says_how_to(opened: Any) -> None:
    page = opened([adopted(), *window(), *window()])

    assert "gradkeeper run --norms" in page.text("#unmeasured")
    assert not page.one("#only").is_displayed(), "there is no finding to look for"


def test_ranks_have_their_names_below_the_optimizers(opened: Any) -> None:
    def of_rank(rank: int, events: list[Event]) -> list[Event]:
        return [replace(event, rank=rank) for event in events]

    usual, odd = [adopted(), *window(), *window()], [adopted(), *window(), *window(2)]

    page = opened([*of_rank(0, usual), *of_rank(1, odd), *of_rank(2, usual)])

    assert [one.text for one in page.all("#lanes button")] == [
        "optimizer, ranks 0 and 2",
        "optimizer, rank 1",
    ]


def test_on_a_phone_nothing_is_wider_than_the_screen(opened: Any) -> None:
    page = opened(faulty())
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}

    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        wide = page.browser.execute_script("return document.documentElement.scrollWidth")
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert wide <= 390


def test_what_has_the_focus_is_outlined(opened: Any) -> None:
    page = opened(faulty(3, at_window=2))

    for _ in range(4):
        page.press("\ue004")  # tab
        focused = page.browser.switch_to.active_element
        assert focused.value_of_css_property("outline-style") == "solid"


def test_names_that_look_like_markup_are_shown_as_they_are(opened: Any) -> None:
    name = "</script><script>window.hit=1</script><img src=x onerror='window.hit=2'>"
    odd = ev.Adopt(site=at(1), optimizer=name, accounts=("other",))
    spends: list[Event] = [
        ev.Backward(site=at(5), accounts=("other",)),
        ev.Step(site=at(6), optimizer=name),
    ]

    page = opened([adopted(), odd, *window(), *spends])

    assert page.browser.execute_script("return window.hit") is None
    assert name in [button.text for button in page.all("#lanes button")]
