from collections.abc import Iterator
from dataclasses import replace

from gradkeeper.model import Auditor, Event, Findings, Severity, Site, audit
from gradkeeper.model.events import Adopt, Backward, Step
from gradkeeper.rules import ALL

LOSS, STEP = Site("train.py", 11, 5), Site("train.py", 12, 5)


def forgetful(rounds: int, rank: int | None = None) -> Iterator[Event]:
    yield Adopt(site=LOSS, rank=rank, optimizer="opt", accounts=("model",))
    for _ in range(rounds):
        yield Backward(site=LOSS, rank=rank, accounts=("model",))
        yield Step(site=STEP, rank=rank, optimizer="opt")


def test_findings_come_while_the_tape_still_runs() -> None:
    def endless() -> Iterator[Event]:
        yield from forgetful(rounds=2)
        raise AssertionError("the finding must come before this")

    finding = next(audit(endless(), ALL))

    assert finding.rule == "GK101"


def test_equal_findings_fold_into_one_with_a_count_and_the_steps() -> None:
    (finding,) = Findings(audit(forgetful(rounds=5), ALL))

    assert finding.count == 4
    assert (finding.first_step, finding.last_step) == (2, 5)
    assert [because.site for because in finding.because] == [LOSS, STEP]


def test_the_first_of_its_kind_is_told_from_the_rest() -> None:
    findings = Findings()

    news = [findings.add(finding) for finding in audit(forgetful(rounds=4), ALL)]

    assert news == [True, False, False]


def test_findings_are_ordered_by_line() -> None:
    raw = list(audit(forgetful(rounds=3), ALL))
    early = [replace(one, site=Site("train.py", 2)) for one in raw]

    assert [one.site.line for one in Findings([*raw, *early])] == [2, 12]


def test_each_rank_has_books_of_its_own() -> None:
    first = [
        Backward(site=LOSS, rank=0, accounts=("model",)),
        Step(site=STEP, rank=0, optimizer="o"),
    ]
    second = [Step(site=STEP, rank=1, optimizer="o")]

    assert list(audit([*first, *second], ALL)) == []


def test_a_fault_of_all_ranks_is_one_finding() -> None:
    both = [*forgetful(3, rank=0), *forgetful(3, rank=1)]

    (finding,) = Findings(audit(both, ALL))

    assert finding.count == 4
    assert finding.rank is None


def test_a_fault_of_one_rank_names_it() -> None:
    (finding,) = Findings(audit(forgetful(3, rank=1), ALL))

    assert finding.rank == 1


def test_an_auditor_judges_one_event_at_a_time() -> None:
    auditor = Auditor(ALL)

    found = [auditor.post(event) for event in forgetful(rounds=2)]

    assert [len(one) for one in found] == [0, 0, 0, 0, 1]
    assert found[-1][0].severity is Severity.ERROR
