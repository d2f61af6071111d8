"""What `on_finding="raise"` raises."""

from gradkeeper.model import Finding


class FindingError(Exception):
    """Raised at the user's line; `finding` says what was found there."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.site} {finding.rule} {finding.name}: {finding.message}")
        self.finding = finding


# The name under which it is imported and caught, for tracebacks.
FindingError.__module__ = "gradkeeper"
