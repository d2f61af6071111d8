"""gradkeeper: every gradient a loss produces should reach the weights exactly once.

In the order in which to read them:

model          the books: events, accounts, entries, findings
rules          one fault per file; a rule reads one entry
lint           source text into events, without running it
watcher        a running job into events
watching       `watch(...)`: the watcher joined to a report
engine         the training loop that is correct by construction
checkpoint     plain named state on disk and back
prove          whether a script that is killed resumes exactly
report         findings as text, as data, and as the statement page
server         the linter inside an editor
cli            the commands
integrations   inside pytest, Jupyter, trainers and TensorBoard
testing        assertions for users' own training steps and loaders
source_line    which line of the user's led here
tree           state is a tree: how it is walked
rng            random number generators, read and put back
replicas       weights that ranks should hold alike: when they are compared, and by what
torch_private  private parts of torch, used here and nowhere else
extras         what is needed beside the standard library, and how to get it

What needs torch is imported when it is first asked for: the linter must start without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradkeeper.engine import Engine, EngineError, EngineWarning, Window
    from gradkeeper.watcher import FindingError, ignore
    from gradkeeper.watching import Watch, watch

__version__ = "0.2.0"

__all__ = [
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

_HOMES = {
    "Engine": "gradkeeper.engine",
    "EngineError": "gradkeeper.engine",
    "EngineWarning": "gradkeeper.engine",
    "FindingError": "gradkeeper.watcher",
    "Watch": "gradkeeper.watching",
    "Window": "gradkeeper.engine",
    "ignore": "gradkeeper.watcher",
    "load_ipython_extension": "gradkeeper.integrations.jupyter",
    "unload_ipython_extension": "gradkeeper.integrations.jupyter",
    "watch": "gradkeeper.watching",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"gradkeeper has no {name!r}")
    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        from gradkeeper.extras import INSTALL_TORCH, TORCH

        if not any(package.startswith(str(error.name)) for package in TORCH):
            raise
        said = f"gradkeeper.{name} needs {error.name}: {INSTALL_TORCH}"
        raise ModuleNotFoundError(said, name=error.name) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
