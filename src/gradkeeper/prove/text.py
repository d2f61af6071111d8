"""The verdict, for people and for programs."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from math import isfinite

from gradkeeper.prove.proof import Kill, Proof, after

MOST = 20


def as_text(proof: Proof) -> str:
    return "\n".join(_lines(proof)) + "\n"


def _lines(proof: Proof) -> Iterator[str]:
    yield f"{shlex.join(proof.command)}: {_verdict(proof)}"
    yield f"   uninterrupted: {proof.steps} steps, {proof.backwards} backward calls"
    for number, kill in enumerate(proof.kills, 1):
        yield f"   kill {number}: {after(kill.at)}; {_went_on(kill)}"
    if len(proof.kills) < proof.asked:
        yield f"   {len(proof.kills)} of {proof.asked} kills: there was nothing left to kill"
    if proof.kills and not proof.resumed:
        yield "   it started from the beginning each time: nothing was resumed"
        yield f"   {_saved(proof)}"
    if proof.failure is not None:
        yield f"   {proof.failure}"
    yield from _parting(proof)
    yield from _parameters(proof)


def _verdict(proof: Proof) -> str:
    if proof.exact:
        return "exact, the weights are equal bit for bit"
    if proof.failure is not None:
        return "not resumed"
    if proof.equal:
        return "nothing was resumed, so nothing is proven"
    return "not exact, the weights differ"


def _went_on(kill: Kill) -> str:
    if kill.anew:
        return "started from the beginning"
    match kill.resumed:
        case None:
            return "went on from weights that no step had left"
        case 0:
            return "went on in step 1"
    return f"went on from step {kill.resumed}"


def _saved(proof: Proof) -> str:
    """What there was to resume from."""
    if not proof.left:
        return (
            "by the last kill it had written no file: does it save before it ends? It can be "
            "killed elsewhere with --seed, and more often with --kills"
        )
    newest, *others = proof.left
    files = f"{newest} and {len(others)} more" if others else newest
    return (
        f"by the last kill it had written {files}: if that is a checkpoint, load it before "
        "training (load_state_dict, engine.resume())"
    )


def _parting(proof: Proof) -> Iterator[str]:
    if proof.equal or proof.failure is not None:
        return
    if proof.parting is None:
        yield "   no single step is seen to differ: only the end does"
        return
    step = proof.parting.step
    where = "at once" if step is None else f"first in step {step}"
    yield f"from kill {proof.parting.kill} on, {where}:"
    for cause in proof.parting.causes:
        yield f"   {cause}"


def _parameters(proof: Proof) -> Iterator[str]:
    found = proof.comparison
    if found is None:
        return
    whole, last = found.optimizers
    if whole != last:
        yield f"   the uninterrupted run built {whole} optimizers, the last start {last}: compared"
        yield "   are the parameters of the last ones"
    if not found.differences:
        return
    yield f"{len(found.differences)} of {found.parameters} parameters differ:"
    for difference in found.differences[:MOST]:
        yield f"   {difference.parameter}: {difference.what}"
    if len(found.differences) > MOST:
        yield f"   ... and {len(found.differences) - MOST} more"


def as_json(proof: Proof) -> str:
    found = {
        "version": 1,
        "exact": proof.exact,
        "command": list(proof.command),
        "seed": proof.seed,
        "steps": proof.steps,
        "backwards": proof.backwards,
        "kills": [
            {"step": kill.at[0], "micro_step": kill.at[1], "resumed_from_step": kill.resumed}
            for kill in proof.kills
        ],
        "resumed": proof.resumed,
        "failure": proof.failure,
        "parting": None if proof.equal or proof.parting is None else asdict(proof.parting),
        "differences": _differences(proof),
    }
    return json.dumps(found, indent=2) + "\n"


def _differences(proof: Proof) -> list[dict[str, object]]:
    if proof.comparison is None:
        return []
    return [
        {
            "parameter": difference.parameter,
            "elements": difference.elements,
            "of": difference.of,
            # JSON has no infinity.
            "most": difference.most
            if difference.most is not None and isfinite(difference.most)
            else None,
        }
        for difference in proof.comparison.differences
    ]
