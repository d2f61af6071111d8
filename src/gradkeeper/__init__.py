"""gradkeeper: every gradient a loss produces should reach the weights exactly once.

What needs torch is imported when it is first asked for: the linter must start without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradkeeper.engine import Engine, EngineError, EngineWarning, Window
    from gradkeeper.watcher import FindingError, ignore
    from gradkeeper.watching import Watch, watch

__version__ = "0.1.0"

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
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
