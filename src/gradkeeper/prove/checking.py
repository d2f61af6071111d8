"""Whether a run that nobody killed is one to compare with."""

from gradkeeper.prove.errors import ProveError
from gradkeeper.prove.record import Record
from gradkeeper.prove.running import Ended, has_python


def checked(ended: Ended) -> Record:
    """The record of a run that ended well; else why there is nothing to compare."""
    blind = ended.folder / "blind"
    if ended.late is not None:
        raise ProveError(
            f"the script has not ended after {ended.late:g} seconds: give it more with --timeout, "
            f"or less to do{ended.last_words()}"
        )
    if ended.code != 0:
        raise ProveError(f"the script fails by itself, {how_it_ended(ended)}:{ended.last_words()}")
    if not has_python(ended.folder):
        raise ProveError(
            "no Python was seen: name a command that runs a Python script, and not with -I or -E, "
            "which keep it from being watched"
        )
    if blind.exists():
        raise ProveError(
            f"the script's Python cannot be watched ({blind.read_text()}): "
            "install gradkeeper there too, from the clone or wheel that it came from here"
        )
    record = ended.record
    if record is None or not record.steps:
        raise ProveError(
            "no optimizer took a step: does the script train, or did it find its own finished "
            "checkpoint in the folder?"
        )
    if record.final is None:
        raise ProveError("the script's end was not seen: it must not leave by os._exit")
    return record


def how_it_ended(ended: Ended) -> str:
    return f"with exit code {ended.code}" if ended.code >= 0 else f"by signal {-ended.code}"
