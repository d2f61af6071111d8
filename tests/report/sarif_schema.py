"""What SARIF 2.1.0 asks of the parts that we write, as a JSON schema.

Written from the text of the standard (OASIS, sections 3.13 to 3.57), and stricter than it: a key
that is not named here is refused, so that a misspelt one cannot pass as an extension.
"""

from typing import Any

TEXT = {"type": "string", "minLength": 1}
MESSAGE = {
    "type": "object",
    "properties": {"text": TEXT},
    "required": ["text"],
    "additionalProperties": False,
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
NUMBER = {"type": "integer", "minimum": 1}
# A relative reference as of RFC 3986: what may not stand in one is escaped.
URI = {"type": "string", "pattern": r"^(?:[A-Za-z0-9._~/:@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$"}


def strict(required: str, optional: str = "", **properties: Any) -> dict[str, Any]:
    names = {*required.split(), *optional.split()}
    assert names == set(properties)
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


ARTIFACT = strict("uri", uri=URI)
REGION = strict(
    "startLine",
    "startColumn endLine endColumn",
    startLine=NUMBER,
    startColumn=NUMBER,
    endLine=NUMBER,
    endColumn=NUMBER,
)
LOCATION = strict(
    "physicalLocation",
    "message",
    physicalLocation=strict("artifactLocation", "region", artifactLocation=ARTIFACT, region=REGION),
    message=MESSAGE,
)
REPLACEMENT = strict(
    "deletedRegion",
    "insertedContent",
    deletedRegion=REGION,
    insertedContent=strict("text", text={"type": "string"}),
)
CHANGE = strict(
    "artifactLocation replacements",
    artifactLocation=ARTIFACT,
    replacements={"type": "array", "items": REPLACEMENT, "minItems": 1},
)
FIX = strict(
    "artifactChanges",
    "description",
    description=MESSAGE,
    artifactChanges={"type": "array", "items": CHANGE, "minItems": 1, "uniqueItems": True},
)
RESULT = strict(
    "message ruleId",
    "ruleIndex level locations partialFingerprints properties relatedLocations fixes",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations={"type": "array", "items": LOCATION},
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    properties={"type": "object"},
    relatedLocations={"type": "array", "items": LOCATION, "uniqueItems": True},
    fixes={"type": "array", "items": FIX, "uniqueItems": True},
)
RULE = strict(
    "id",
    "name shortDescription fullDescription help defaultConfiguration properties",
    id=TEXT,
    name=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=strict("text", "markdown", text=TEXT, markdown=TEXT),
    defaultConfiguration=strict("level", level=LEVEL),
    properties={"type": "object"},
)
DRIVER = strict(
    "name", "rules", name=TEXT, rules={"type": "array", "items": RULE, "uniqueItems": True}
)
RUN = strict(
    "tool",
    "columnKind results",
    tool=strict("driver", driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results={"type": "array", "items": RESULT},
)
SCHEMA = strict(
    "version runs",
    "$schema",
    **{"$schema": TEXT, "version": {"const": "2.1.0"}, "runs": {"type": "array", "items": RUN}},
)
