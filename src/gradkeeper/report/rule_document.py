"""A rule's document: for a terminal, and as Markdown that any page can hold."""

import re

from gradkeeper.model.rule import Rule

FENCE = re.compile(r"^```python (bad|good)\b(.*)$", re.M)
SAID = {"bad": "Wrong", "good": "Right"}
ONLY = {"runtime": ", as only a run can tell", "static": ", as only the source can tell"}


def plain(rule: Rule) -> str:
    """Examples say in words which is which."""
    document = FENCE.sub(_fence, rule.document.strip())
    return f"{rule.code} {rule.name} [{rule.severity}]\n\n{document}\n"


def markdown(rule: Rule) -> str:
    """With a heading."""
    return f"# {plain(rule)}"


def _fence(found: re.Match[str]) -> str:
    return f"{SAID[found[1]]}{ONLY.get(found[2].strip(), '')}:\n\n```python"
