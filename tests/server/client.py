"""An editor for the tests: speaks the Language Server Protocol, with nothing of pygls in it."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 120
"""Seconds; a machine under load is no bug."""
Message = dict[str, Any]


class Editor:
    def __init__(self, folder: Path, *, pause: int = 20, options: Message | None = None) -> None:
        self.folder = folder
        self._number = 0
        self._heard: queue.Queue[Message] = queue.Queue()
        self.diagnostics: dict[str, list[Message]] = {}
        """By file name, as told last."""
        self.published: list[tuple[str, int | None]] = []
        self.messages: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gradkeeper", "server", "--pause", str(pause)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.capabilities = self.ask(
            "initialize",
            processId=None,
            rootUri=folder.as_uri(),
            workspaceFolders=[{"uri": folder.as_uri(), "name": "project"}],
            capabilities={"textDocument": {"publishDiagnostics": {"relatedInformation": True}}},
            initializationOptions=options,
        )["capabilities"]
        self.tell("initialized")

    def __enter__(self) -> "Editor":
        return self

    def __exit__(self, *_: object) -> None:
        self.ask("shutdown")
        self.tell("exit")
        self._listener.join(PATIENCE)
        self.errors = self._last_words()

    def open(self, name: str, text: str) -> None:
        document = {"uri": self.uri(name), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)

    def type(self, name: str, version: int, *changes: Message) -> None:
        document = {"uri": self.uri(name), "version": version}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=list(changes))

    def about(self, name: str) -> Message:
        return {"textDocument": {"uri": self.uri(name)}}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": params or None})
        return self._until(lambda one: one.get("id") == number and "method" not in one)["result"]

    def wait_for(self, name: str, version: int | None = None) -> list[Message]:
        """The next diagnostics of a file, of a version of it if one is named."""
        uri = self.uri(name)

        def wanted(one: Message) -> bool:
            if one.get("method") != "textDocument/publishDiagnostics":
                return False
            told = one["params"]
            return told["uri"] == uri and (version is None or told.get("version") == version)

        found: list[Message] = self._until(wanted)["params"]["diagnostics"]
        return found

    def wait_for_message(self) -> str:
        told = self._until(lambda one: one.get("method") == "window/showMessage")
        return str(told["params"]["message"])

    def _until(self, wanted: Callable[[Message], bool]) -> Message:
        while True:
            heard = self._heard.get(timeout=PATIENCE)
            assert heard, f"the server has gone:\n{self._last_words()}"
            if heard.get("method") == "textDocument/publishDiagnostics":
                told = heard["params"]
                name = str(told["uri"]).rpartition("/")[2]
                self.diagnostics[name] = told["diagnostics"]
                self.published.append((name, told.get("version")))
            if wanted(heard):
                return heard

    def _last_words(self) -> str:
        self.code = self._process.wait(PATIENCE)
        return self._process.communicate()[1].decode()

    def _send(self, body: Message) -> None:
        raw = json.dumps({"jsonrpc": "2.0", **body}).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(raw) + raw)
        self._process.stdin.flush()

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream
        while header := stream.readline():
            length = int(header.split(b":")[1]) if header.lower().startswith(b"content-l") else 0
            while stream.readline().strip():
                pass
            self._heard.put(json.loads(stream.read(length)))
        self._heard.put({})


def replaced(line: int, start: int, end: int, text: str) -> Message:
    """A change within a line, counted from 0."""
    span = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
    return {"range": span, "text": text}


def applied(text: str, edits: list[Message]) -> str:
    """A text after an editor has made these edits, for columns below U+10000."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]

    def offset(place: Message) -> int:
        row: int = min(place["line"], len(lines))
        return starts[row] + int(place["character"])

    for edit in sorted(edits, key=lambda one: offset(one["range"]["start"]), reverse=True):
        start, end = (offset(edit["range"][side]) for side in ("start", "end"))
        text = text[:start] + edit["newText"] + text[end:]
    return text
