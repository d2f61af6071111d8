"""`gradkeeper checkpoint show|verify|diff|export|import`: what a checkpoint holds, whether it is
whole; and its weights for others, or theirs for us.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from gradkeeper.cli.errors import CliError
from gradkeeper.extras import INSTALL_TORCH

if TYPE_CHECKING:
    from gradkeeper.checkpoint import Manifest
    from gradkeeper.checkpoint.tensors import View

NAME = "checkpoint"
HELP = "show, verify, diff, export or import checkpoints"
MOST = 50


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    where = "a checkpoint, or the folder of them; a path or a URL"
    for name, help_text in (
        ("show", "what is in it"),
        ("verify", "compare every file with its checksum: exit 0 if good, 1 if damaged"),
    ):
        action = actions.add_parser(name, help=help_text, description=help_text)
        action.add_argument("folder", metavar="DIR", help=where)
        action.set_defaults(parser=action)
    help_text = "which tensors and values differ, by how much: exit 0 if none, 1 if some"
    diff = actions.add_parser("diff", help=help_text, description=help_text)
    diff.add_argument("one", metavar="A", help="a checkpoint, or a folder for its newest")
    diff.add_argument("other", metavar="B", help="another")
    diff.set_defaults(parser=diff)
    _configure_export(actions)
    _configure_import(actions)


def _configure_export(actions: Any) -> None:
    help_text = "write the model's weights for other tools, whatever number of ranks saved them"
    export = actions.add_parser("export", help=help_text, description=help_text)
    export.add_argument("folder", metavar="SAVE", help="a checkpoint, or a folder for its newest")
    export.add_argument(
        "--to",
        choices=("safetensors", "dcp"),
        default="safetensors",
        help="safetensors by the model's own names (default), or a folder for "
        "torch.distributed.checkpoint",
    )
    export.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        required=True,
        help="a folder, as from_pretrained() reads it; or one file that ends in .safetensors",
    )
    export.add_argument("--owner", metavar="NAME", help="whose model, where there are several")
    export.add_argument(
        "--shard-bytes",
        metavar="N",
        type=int,
        help="above this, a folder gets several files and an index (default: 5 GB)",
    )
    export.add_argument("--overwrite", action="store_true", help="replace weights that are there")
    export.set_defaults(parser=export)


def _configure_import(actions: Any) -> None:
    help_text = "make a checkpoint that engine.resume() goes on from of another tool's"
    arrive = actions.add_parser(
        "import",
        help=help_text,
        description=f"{help_text}. Nothing in it is run: what would need pickle is refused.",
    )
    arrive.add_argument(
        "source",
        metavar="FILE",
        help="a file of torch.save or safetensors, or a folder of DCP or Hugging Face",
    )
    arrive.add_argument("folder", metavar="DIR", help="the new run's folder; a path or a URL")
    arrive.add_argument("--model", metavar="NAME", help="the model's key in it, if it is not clear")
    arrive.add_argument("--optimizer", metavar="NAME", help="the optimizer's")
    arrive.set_defaults(parser=arrive)


def run(args: argparse.Namespace) -> int:
    from gradkeeper.checkpoint import CheckpointError, DamagedError

    action = ACTIONS[args.action]
    try:
        return action(args)
    except DamagedError as error:
        print(f"gradkeeper checkpoint: damaged: {error}", file=sys.stderr)
        return 1
    except CheckpointError as error:
        raise CliError(str(error)) from None
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "fsspec", "numpy"):
            raise
        raise CliError(f"needs {error.name}: {INSTALL_TORCH}") from None
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from None


def _show(args: argparse.Namespace) -> int:
    from gradkeeper.checkpoint import ReadError
    from gradkeeper.checkpoint.checkpoint import look

    storage, names, moved = _found(args.folder)
    if len(names) == 1:
        found = look(storage, names[0], moved=moved)
        print(*_told(found, _tensors_by_part(storage, names[0], found)), sep="\n")
        return 0
    code = 0
    for name in names:
        try:
            print(_in_a_line(name, look(storage, name)))
        except ReadError as error:
            print(f"{name}  {error}")
            code = 1
    return code


def _verify(args: argparse.Namespace) -> int:
    from gradkeeper.checkpoint import DamagedError, ForeignError, NewerFormatError
    from gradkeeper.checkpoint.checkpoint import verify

    storage, names, moved = _found(args.folder)
    code = 0
    for name in names:
        try:
            found = verify(storage, name, moved=moved)
        except DamagedError as error:
            print(f"damaged  {error}")
            code = max(code, 1)
        except (ForeignError, NewerFormatError) as error:
            print(f"unknown  {error}")
            code = 2
        else:
            print(f"good     {name}: {_size(found)} in {_counted(found)}")
    return code


def _diff(args: argparse.Namespace) -> int:
    from gradkeeper.checkpoint.checkpoint import every_part, read
    from gradkeeper.checkpoint.compare import differences

    states = []
    for folder in (args.one, args.other):
        storage, names, moved = _found(folder)
        states.append(read(storage, names[-1], moved=moved, assemble=every_part).state)
    found = list(differences(*states))
    for difference in found[:MOST]:
        print(f"{difference.where}: {difference.what}")
    if len(found) > MOST:
        print(f"... and {len(found) - MOST:,} more")
    print(f"{len(found):,} differences" if found else "equal, bit for bit")
    return 1 if found else 0


def _export(args: argparse.Namespace) -> int:
    from gradkeeper.checkpoint.weight_files import SHARD_BYTES
    from gradkeeper.engine.errors import EngineError
    from gradkeeper.engine.resume.weights import export, weights_in

    storage, names, moved = _found(args.folder)
    try:
        weights = weights_in(storage, names[-1], moved=moved, owner=args.owner)
        files = export(
            weights,
            args.output,
            to=args.to,
            shard_bytes=SHARD_BYTES if args.shard_bytes is None else args.shard_bytes,
            overwrite=args.overwrite,
        )
    except EngineError as error:
        raise CliError(str(error)) from None
    once = f", {len(weights.tied)} tied to others" if weights.tied else ""
    print(f"{names[-1]}: {len(weights.written):,} tensors{once}, {_in_units(weights.size)}")
    print(*files, sep="\n")
    return 0


def _import(args: argparse.Namespace) -> int:
    from uuid import uuid4

    from gradkeeper.checkpoint import Store
    from gradkeeper.checkpoint.foreign import read_foreign
    from gradkeeper.engine.resume.weights import imported_state

    store = Store(args.folder)
    if store.names():
        raise CliError(f"{args.folder} holds checkpoints already: give the folder of a new run")
    recipe = read_foreign(args.source, model=args.model, optimizer=args.optimizer)
    facts = {"run": uuid4().hex, "imported": {"from": args.source, "holds": recipe.holds}}
    name = store.save(imported_state(recipe), facts=facts)
    print(f"{args.folder}/{name}: {', '.join(recipe.holds)}; engine.resume() goes on from it")
    return 0


def _found(url: str) -> tuple[Any, list[str], bool]:
    """The storage, its checkpoints from old to new, and whether they may have other names."""
    from gradkeeper.checkpoint import MissingError, Store
    from gradkeeper.checkpoint.storage import MANIFEST, storage_at
    from gradkeeper.checkpoint.store import parted

    if not url:
        raise CliError("the path of the checkpoint is empty")
    inside = storage_at(url).names()
    if MANIFEST in inside:
        folder, name = parted(url)
        return storage_at(folder), [name], True
    names = Store(url).names()
    if not names:
        raise MissingError(f"{url}: there is no checkpoint")
    return storage_at(url), names, False


def _tensors_by_part(storage: Any, name: str, found: "Manifest") -> "list[Mapping[str, View]]":
    from gradkeeper.checkpoint.checkpoint import described_part

    return [described_part(storage, name, found, part).views for part in range(found.parts)]


def _told(found: "Manifest", views: "list[Mapping[str, View]]") -> Iterator[str]:
    yield f"{found.name}  saved {found.saved}"
    yield f"  {_size(found)} in {sum(map(len, views)):,} tensors"
    yield "  by " + ", ".join(f"{name} {version}" for name, version in found.versions.items())
    for name, value in found.facts.items():
        yield f"  {name}: {_words(value)}"
    for number, part in enumerate(views):
        margin = "  "
        if len(views) > 1:
            yield f"  part {number}, of rank {number}"
            margin = "    "
        for first, (count, sizes) in _by_first_word(part).items():
            yield f"{margin}{first}: {count:,} tensors, {sizes:,} elements"


def _by_first_word(views: "Mapping[str, View]") -> dict[str, tuple[int, int]]:
    """Tensors by the first word of their name: model, optimizer, ..."""
    found: dict[str, tuple[int, int]] = {}
    for name, view in views.items():
        first = name.partition(".")[0]
        count, sizes = found.get(first, (0, 0))
        found[first] = (count + 1, sizes + prod(view.shape))
    return found


def _counted(found: "Manifest") -> str:
    if found.parts > 1:
        return f"{found.parts} parts"
    return f"{len(found.views):,} tensors"


def _in_a_line(name: str, found: "Manifest") -> str:
    short = {key: value for key, value in found.facts.items() if key != "machine"}
    facts = ", ".join(f"{key} {_words(value)}" for key, value in short.items())
    return f"{name}  {found.saved}  {_size(found)}  {facts}".rstrip()


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    return str(value)


def _size(found: "Manifest") -> str:
    return _in_units(sum(facts.size for facts in found.files.values()))


def _in_units(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} GB"


ACTIONS = {
    "show": _show,
    "verify": _verify,
    "diff": _diff,
    "export": _export,
    "import": _import,
}
