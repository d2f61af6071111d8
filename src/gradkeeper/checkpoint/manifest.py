"""The manifest: everything but the tensors' bytes, and what those must be.

It is written last, so a checkpoint that has one is complete; its last line is the digest of all
lines before it, so that it can vouch for itself as well.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gradkeeper.checkpoint.codec import decode
from gradkeeper.checkpoint.errors import DamagedError, ForeignError, NewerFormatError
from gradkeeper.checkpoint.storage import MANIFEST
from gradkeeper.checkpoint.tensors import View, packed_view, view_of

FORMAT = "gradkeeper checkpoint"
VERSION = 1


@dataclass(frozen=True)
class FileFacts:
    size: int
    crc32: tuple[str, ...]
    """Of each piece of the file, see `checksum`."""


@dataclass(frozen=True)
class Manifest:
    name: str
    """The checkpoint's own: one manifest put in another's place would not go unnoticed."""
    files: Mapping[str, FileFacts]
    views: Mapping[str, View]
    tree: Any
    facts_tree: Any = field(default_factory=dict)
    saved: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    parts: int = 1
    """How many processes wrote it; this manifest describes the first one's part."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the caller said about this checkpoint: steps, the window, anything to show."""
        facts: dict[str, Any] = decode(self.facts_tree, {})
        return facts


def file_of(part: int) -> str:
    """What describes a part; the first one's is the manifest itself."""
    return f"part-{part:05}.json" if part else MANIFEST


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def pack(manifest: Manifest) -> bytes:
    body = {
        "format": FORMAT,
        "version": VERSION,
        "name": manifest.name,
        "saved": manifest.saved,
        "versions": dict(manifest.versions),
        "facts": manifest.facts_tree,
        "parts": manifest.parts,
        "files": {name: _listed(facts) for name, facts in manifest.files.items()},
        "tensors": {name: packed_view(name, view) for name, view in manifest.views.items()},
        "state": manifest.tree,
    }
    lines = [f"{json.dumps(key)}: {_pretty(value, ' ')}" for key, value in body.items()]
    return _sealed(("{\n " + ",\n ".join(lines)).encode())


def unpack(raw: bytes) -> Manifest:
    """DamagedError, ForeignError or NewerFormatError say why it is none."""
    body = _opened(raw)
    # Before anything else is asked of it: a newer format may seal itself in another way.
    if body["version"] > VERSION:
        raise NewerFormatError(
            f"it has format version {body['version']}, "
            f"and this gradkeeper reads up to {VERSION}: update gradkeeper"
        )
    text, mark, _ = raw.rpartition(SEAL)
    if not mark or _sealed(text) != raw:
        raise DamagedError(f"{MANIFEST} does not match its own checksum")
    return Manifest(
        name=body["name"],
        files={
            name: FileFacts(facts["size"], tuple(facts["crc32"]))
            for name, facts in body["files"].items()
        },
        views={name: view_of(name, facts) for name, facts in body["tensors"].items()},
        tree=body["state"],
        facts_tree=body["facts"],
        saved=body["saved"],
        versions=body["versions"],
        parts=body.get("parts", 1),
    )


SEAL = b',\n "sha256": "'


def _sealed(text: bytes) -> bytes:
    return text + SEAL + hashlib.sha256(text).hexdigest().encode() + b'"\n}\n'


def _opened(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        # Cut short or altered, if it begins like one of ours; else it never was one.
        if FORMAT.encode() in raw[:64]:
            raise DamagedError(f"{MANIFEST} is not whole") from None
        raise ForeignError(f"its {MANIFEST} was not written by gradkeeper") from None
    match body:
        case {"format": "gradkeeper checkpoint", "version": int()}:
            return dict(body)
    raise ForeignError(f"its {MANIFEST} was not written by gradkeeper")


def _listed(facts: FileFacts) -> dict[str, Any]:
    return {"size": facts.size, "crc32": list(facts.crc32)}


# JSON for people: what fits on a line stands on one, numbers stay together.

WIDTH = 96


def _pretty(value: Any, margin: str = "") -> str:
    inner = margin + " "
    if isinstance(value, dict):
        parts = [f"{_scalar(key)}: {_pretty(part, inner)}" for key, part in value.items()]
        return _joined("{}", parts, margin)
    if isinstance(value, list):
        if not any(isinstance(item, dict | list) for item in value):
            return _scalar(value)
        return _joined("[]", [_pretty(item, inner) for item in value], margin)
    return _scalar(value)


def _scalar(value: Any) -> str:
    """On one line, however long."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _joined(ends: str, parts: list[str], margin: str) -> str:
    line = ", ".join(parts)
    if len(line) < WIDTH and "\n" not in line:
        return ends[0] + line + ends[1]
    lines = f",\n{margin} ".join(parts)
    return f"{ends[0]}\n{margin} {lines}\n{margin}{ends[1]}"
