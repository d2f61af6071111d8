"""What `gradkeeper` and its model offer by name is a promise: adding or dropping one shows here."""

import gradkeeper
from gradkeeper import model


def test_the_package_exports_these_names_and_no_others() -> None:
    assert gradkeeper.__all__ == ["__version__"]


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


def test_every_exported_name_is_there() -> None:
    for name in gradkeeper.__all__:
        assert hasattr(gradkeeper, name)
    for name in model.__all__:
        assert hasattr(model, name)
