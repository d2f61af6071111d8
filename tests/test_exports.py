"""What `gradkeeper` and its model offer by name is a promise: adding or dropping one shows here."""

import pytest

import gradkeeper
from gradkeeper import model


def test_the_package_exports_these_names_and_no_others() -> None:
    assert gradkeeper.__all__ == [
        "Engine",
        "EngineError",
        "EngineWarning",
        "FindingError",
        "Watch",
        "Window",
        "__version__",
        "ignore",
        "watch",
    ]


def test_the_model_exports_these_names_and_no_others() -> None:
    assert model.__all__ == [
        "Auditor",
        "Because",
        "Entry",
        "Event",
        "Finding",
        "Findings",
        "Ledger",
        "Rule",
        "Severity",
        "Site",
        "Tape",
        "TapeError",
        "audit",
    ]


def test_watch_stays_a_function_when_the_watcher_is_imported_first() -> None:
    import gradkeeper.watcher.session

    assert gradkeeper.watch.__name__ == "watch"


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="gradkeeper has no 'wach'"):
        _ = gradkeeper.wach


def test_every_exported_name_is_there() -> None:
    for name in gradkeeper.__all__:
        assert hasattr(gradkeeper, name)
    for name in model.__all__:
        assert hasattr(model, name)
