"""The conversation with an editor: what it tells and asks, and when it is answered."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from gradkeeper import __version__
from gradkeeper.lint.config import ConfigError, UnknownCodeError
from gradkeeper.lint.files import decode
from gradkeeper.model.finding import Finding
from gradkeeper.server import protocol
from gradkeeper.server.positions import Text
from gradkeeper.server.projects import EditorSettings, Projects

T = TypeVar("T")
Answer = Callable[[Any], Coroutine[Any, Any, Any]]
PAUSE = 0.3
"""Seconds without a key before what was typed is checked."""
STACK = 64 * 1024 * 1024
"""Bytes for the thread that checks: source may be nested deeply."""
UNPARSABLE = "GK000"
KINDS = [lsp.CodeActionKind.QuickFix, protocol.FIX_ALL]


class Service:
    def __init__(self, server: LanguageServer, pause: float = PAUSE) -> None:
        self._server = server
        self._pause = pause
        self._projects = Projects()
        self._held: dict[str, bytes] = {}
        self._versions: dict[str, int | None] = {}
        self._said: dict[str, list[Finding]] = {}
        self._edits = 0
        self._waiting: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._complained = ""
        before = threading.stack_size(STACK)
        self._worker = ThreadPoolExecutor(1, "gradkeeper")
        self._worker.submit(lambda: None).result()  # starts its thread while the stack is large
        threading.stack_size(before)

    def attach(self) -> None:
        """Asks the server for what is to be heard of."""
        heard: dict[str, Answer] = {
            lsp.TEXT_DOCUMENT_DID_OPEN: self._opened,
            lsp.TEXT_DOCUMENT_DID_CHANGE: self._changed,
            lsp.TEXT_DOCUMENT_DID_SAVE: self._saved,
            lsp.TEXT_DOCUMENT_DID_CLOSE: self._closed,
            lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES: self._saved,
            lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: self._moved,
            lsp.TEXT_DOCUMENT_HOVER: self._hover,
        }
        self._server.feature(lsp.INITIALIZE)(lambda params: self._greeted(params))
        for name, answer in heard.items():
            self._server.feature(name)(_function(answer))
        options = lsp.CodeActionOptions(code_action_kinds=KINDS)
        self._server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, options)(_function(self._actions))

    def _greeted(self, params: lsp.InitializeParams) -> None:
        self._projects = Projects(self._folders(), settings_in(params.initialization_options))

    async def _moved(self, _: Any) -> None:
        self._projects = Projects(self._folders(), self._projects.settings)
        self._check_soon(0)

    def _folders(self) -> list[str]:
        """Of the workspace; an editor may open a file without any."""
        workspace = self._server.workspace
        found = [protocol.path_of(uri) for uri in workspace.folders]
        if not found and workspace.root_uri:
            found = [protocol.path_of(workspace.root_uri)]
        return [path for path in found if path is not None]

    async def _opened(self, params: lsp.DidOpenTextDocumentParams) -> None:
        self._hold(params.text_document.uri)
        self._check_soon(0)

    async def _changed(self, params: lsp.DidChangeTextDocumentParams) -> None:
        self._hold(params.text_document.uri)
        self._check_soon(self._pause, typed=protocol.path_of(params.text_document.uri))

    async def _saved(self, _: Any) -> None:
        """A file may have come that an import leads to."""
        await self._at_work(self._projects.look_around)
        self._check_soon(0)

    async def _closed(self, params: lsp.DidCloseTextDocumentParams) -> None:
        path = protocol.path_of(params.text_document.uri)
        if path is not None:
            self._held.pop(path, None)
            self._versions.pop(path, None)
        self._check_soon(0)

    def _hold(self, uri: str) -> None:
        path = protocol.path_of(uri)
        if path is None or not path.endswith((".py", ".pyw")):
            return
        document = self._server.workspace.get_text_document(uri)
        self._held[path] = encoded(document.source)
        self._versions[path] = document.version

    def _check_soon(self, pause: float, *, typed: str | None = None) -> None:
        """After a pause in which nothing else is typed."""
        self._edits += 1
        if self._waiting is not None:
            self._waiting.cancel()
        loop = asyncio.get_running_loop()
        self._waiting = loop.call_later(pause, lambda: self._go(self._check(typed)))

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, typed: str | None) -> None:
        edits, held = self._edits, dict(self._held)

        def work() -> dict[str, list[Finding]] | None:
            # While it waited for a slow check before it, more may have been typed.
            return self._projects.check(held) if edits == self._edits else None

        try:
            found = await self._at_work(work)
        except (ConfigError, UnknownCodeError) as error:
            self._complain(str(error))
            return
        if found is None or edits != self._edits:  # a check of what was typed meanwhile is due
            return
        self._complained = ""
        half_written = any(finding.rule == UNPARSABLE for finding in found.get(typed or "", []))
        if not half_written:  # else what was said last still says more
            self._publish(found, held)

    def _publish(self, found: dict[str, list[Finding]], held: dict[str, bytes]) -> None:
        text_of = self._texts(held)
        gone: dict[str, list[Finding]] = {path: [] for path in self._said if path not in found}
        for path, findings in {**gone, **found}.items():
            if not findings and not self._said.get(path) and path not in held:
                continue  # never spoken of
            told = [
                protocol.diagnostic(finding, text_of, self._projects.folders)
                for finding in findings
            ]
            self._server.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(
                    uri=protocol.uri_of(path), diagnostics=told, version=self._versions.get(path)
                )
            )
        self._said = found

    async def _hover(self, params: lsp.HoverParams) -> lsp.Hover | None:
        path = protocol.path_of(params.text_document.uri)
        if path is None:
            return None
        place = params.position
        text = self._texts(self._held)(path)
        return protocol.hover(self._said.get(path, []), place.line, place.character, text)

    async def _actions(self, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        path = protocol.path_of(params.text_document.uri)
        if path is None or path not in self._held:
            return []
        held = dict(self._held)
        only = params.context.only or []
        if only and not any(str(kind).startswith("quickfix") for kind in only):
            return await self._fix_all(path, held, [str(kind) for kind in only])
        first, last = params.range.start.line + 1, params.range.end.line + 1
        if not any(first <= finding.site.line <= last for finding in self._said.get(path, [])):
            return []
        findings = await self._at_work(lambda: self._projects.with_fixes(path, held))
        text_of = self._texts(held)
        return [
            action
            for finding in findings
            if first <= finding.site.line <= last
            for action in protocol.actions(finding, text_of, self._projects.folders)
        ]

    async def _fix_all(
        self, path: str, held: dict[str, bytes], only: list[str]
    ) -> list[lsp.CodeAction]:
        """Editors ask for it before a file is saved."""
        if not any(protocol.FIX_ALL.startswith(kind) for kind in only):
            return []
        new = await self._at_work(lambda: self._projects.mended(path, held))
        if new is None:
            return []
        return [protocol.fix_all(path, new, self._texts(held)(path))]

    async def _at_work(self, work: Callable[[], T]) -> T:
        """In the one thread that `Projects` belongs to."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def _texts(self, held: dict[str, bytes]) -> protocol.TextOf:
        units = str(getattr(self._server.workspace.position_encoding, "value", "utf-16"))
        known: dict[str, Text] = {}

        def text_of(path: str) -> Text:
            if path not in known:
                known[path] = Text(self._projects.read(path, held), units)
            return known[path]

        return text_of

    def _complain(self, words: str) -> None:
        """Once for each fault, and not again for every key."""
        if words != self._complained:
            self._complained = words
            self._server.window_show_message(
                lsp.ShowMessageParams(lsp.MessageType.Error, f"gradkeeper: {words}")
            )


def _function(answer: Answer) -> Answer:
    """pygls writes on what it is handed, and nothing can be written on a method."""

    async def heard(params: Any) -> Any:
        return await answer(params)

    return heard


def settings_in(options: Any) -> EditorSettings:
    """The editor's settings: `select`, `extendSelect` and `ignore`, each a list of rules."""
    given = options if isinstance(options, dict) else {}
    lists = {name: given.get(name) or [] for name in ("select", "extendSelect", "ignore")}
    words = {name: [str(candidate) for candidate in found] for name, found in lists.items()}
    return EditorSettings(words["select"], words["extendSelect"], words["ignore"])


def encoded(text: str) -> bytes:
    """As the file would be saved: its first lines may declare an encoding."""
    encoding = decode(text.encode("utf-8", "replace"))[1]
    return text.encode(encoding, "replace")


def start(pause: float = PAUSE) -> None:
    """Talks over standard input and output until the editor hangs up."""
    server = LanguageServer("gradkeeper", __version__)
    Service(server, pause).attach()
    server.start_io()
