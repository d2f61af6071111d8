"""The verdict: as text for people, as JSON for programs, as a badge for a README."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from math import isfinite
from xml.sax.saxutils import escape

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


# One small picture that needs no other server.


LABEL = "resume"
EXACT, NOT_EXACT, UNKNOWN = "#2e7d32", "#b3261e", "#6b7280"
LETTER, MARGIN, HEIGHT = 7, 10, 20
"""Of a monospaced font of eleven pixels."""


def badge(proof: Proof | None) -> str:
    """An SVG. None: nothing could be said of the script."""
    said, colour = _in_brief(proof)
    left, right = (2 * MARGIN + LETTER * len(text) for text in (LABEL, said))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}"'
        f' role="img" aria-label="{LABEL}: {escape(said)}"><title>{LABEL}: {escape(said)}</title>'
        f'<rect width="{left + right}" height="{HEIGHT}" rx="3" fill="#374151"/>'
        f'<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z"'
        f' fill="{colour}"/>'
        '<g fill="#fff" font-family="ui-monospace,DejaVu Sans Mono,Menlo,monospace"'
        ' font-size="11">'
        f'<text x="{MARGIN}" y="14" textLength="{left - 2 * MARGIN}">{LABEL}</text>'
        f'<text x="{left + MARGIN}" y="14" textLength="{right - 2 * MARGIN}">{escape(said)}</text>'
        "</g></svg>\n"
    )


def _in_brief(proof: Proof | None) -> tuple[str, str]:
    if proof is None or not proof.kills:
        return "unknown", UNKNOWN
    kills = "1 kill" if len(proof.kills) == 1 else f"{len(proof.kills)} kills"
    if proof.exact:
        return f"exact, {kills}", EXACT
    if proof.equal:
        return "nothing resumed", UNKNOWN
    return f"not exact, {kills}", NOT_EXACT
