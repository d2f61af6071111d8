"""The verdict as a badge: one small picture that needs no other server."""

from xml.sax.saxutils import escape

from gradkeeper.prove.proof import Proof

LABEL = "resume"
EXACT, NOT_EXACT, UNKNOWN = "#2e7d32", "#b3261e", "#6b7280"
LETTER, MARGIN, HEIGHT = 7, 10, 20
"""Of a monospaced font of eleven pixels."""


def badge(proof: Proof | None) -> str:
    """An SVG. None: nothing could be said of the script."""
    said, colour = _verdict(proof)
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


def _verdict(proof: Proof | None) -> tuple[str, str]:
    if proof is None or not proof.kills:
        return "unknown", UNKNOWN
    kills = "1 kill" if len(proof.kills) == 1 else f"{len(proof.kills)} kills"
    if proof.exact:
        return f"exact, {kills}", EXACT
    if proof.equal:
        return "nothing resumed", UNKNOWN
    return f"not exact, {kills}", NOT_EXACT
