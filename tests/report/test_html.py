"""The fragment that notebooks show: every word of a finding, and nothing that is not escaped."""

from html.parser import HTMLParser

from gradkeeper.model import Finding, Severity, Site
from gradkeeper.report import html

FINDING = Finding(
    rule="GK101",
    name="stale-gradient",
    severity=Severity.ERROR,
    site=Site("train<b>.py", 12, 5),
    message="spends the gradient of `a < b` again",
    remedy="optimizer.zero_grad() & co",
)


class Reader(HTMLParser):
    """The text of a page, and the tags that are open at its end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_finding_is_told_whole_and_escaped() -> None:
    read = Reader(html.render([FINDING]))

    assert read.open == []
    for words in ("GK101 stale-gradient", "train<b>.py:12:5", FINDING.message, FINDING.remedy):
        assert words in read.text
    assert "found 1 error" in read.text


def test_a_clean_run_says_so() -> None:
    assert "nothing found" in Reader(html.render([])).text


def test_an_excerpt_keeps_its_columns_in_a_page_that_sets_text_otherwise() -> None:
    """Seen in Chromium: Jupyter's own style for it is a proportional font."""
    page = html.render([FINDING])

    style = page.split('<pre style="')[1].split('"')[0]
    assert {"font-family: monospace", "white-space: pre"} <= set(style.split("; "))
