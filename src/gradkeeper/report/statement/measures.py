"""Losses and norms of a run that measured them: curves for the script, layers as a table."""

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from statistics import median
from typing import Any

from gradkeeper.model.events import Measure
from gradkeeper.report.statement.contents import Statement, unfolded
from gradkeeper.report.statement.window_story import SPENT

MOST_POINTS = 20_000
CURVES = {"loss": "loss", "norm": "gradient norm", "unclipped": "unclipped norm"}
SPARK = (96, 20, 64)
"""Width, height and points of a layer's small curve."""

Point = tuple[int, float]


def curves(statement: Statement) -> list[dict[str, Any]]:
    """One for each lane and quantity, over the windows."""
    found = []
    places = _places(statement)
    for lane, measures in statement.measures.items():
        for name, label in CURVES.items():
            points = [
                (places[lane, measure.step], value)
                for measure in measures
                if (value := getattr(measure, name)) is not None and (lane, measure.step) in places
            ]
            if points:
                thin = _thinned(points)
                found.append(
                    {
                        "lane": lane,
                        "where": "".join(
                            f"rank {rank}" for rank in statement.lanes[lane].ranks[:1]
                        ),
                        "name": label,
                        "x": [place for place, _ in thin],
                        "y": [_short(value) for _, value in thin],
                    }
                )
    return found


def _places(statement: Statement) -> dict[tuple[int, int], int]:
    """The window at which each taken step of each lane stands."""
    places: dict[tuple[int, int], int] = {}
    taken: dict[int, int] = {}
    most = {
        lane: max(measure.step for measure in some) for lane, some in statement.measures.items()
    }
    for place, shape in enumerate(_shapes(statement)):
        lane, ended = statement.shapes[shape][:2]
        if ended == SPENT:
            taken[lane] = taken.get(lane, 0) + 1
            places[lane, taken[lane]] = place
        if most and all(taken.get(lane, 0) >= last for lane, last in most.items()):
            break
    return places


def _shapes(statement: Statement) -> Iterator[int]:
    if not statement.measures:
        return
    for stories, times in map(unfolded, statement.passages):
        for _ in range(times):
            yield from (story.shape or 0 for story in stories)


def _thinned(points: list[Point]) -> list[Point]:
    """The least and the greatest of every few: what stands out stays."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(2 * len(points) / MOST_POINTS)
    kept = []
    for start in range(0, len(points), size):
        some = points[start : start + size]
        odd = [point for point in some if not math.isfinite(point[1])]
        ends = {min(some, key=lambda point: point[1]), max(some, key=lambda point: point[1])}
        kept += sorted({*ends, *odd[:1]}, key=lambda point: point[0])
    return kept


def _short(value: float) -> float | str:
    """Four digits; JSON knows no NaN."""
    return float(f"{value:.4g}") if math.isfinite(value) else str(value)


def layers(statement: Statement) -> str:
    """A table for each optimizer: every layer's norms, all small curves on one scale."""
    parts = []
    for lane, measures in statement.measures.items():
        series = _series(measures)
        if series:
            parts.append(_table(statement.lanes[lane].optimizer, series))
    return "".join(parts)


def _series(measures: Iterable[Measure]) -> dict[str, list[float]]:
    series: dict[str, list[float]] = {}
    for measure in measures:
        for layer, norm in zip(measure.layers, measure.norms, strict=False):
            series.setdefault(layer, []).append(norm)
    return series


def _table(optimizer: str, series: dict[str, list[float]]) -> str:
    known = [
        norm for norms in series.values() for norm in norms if math.isfinite(norm) and norm > 0
    ]
    low, high = (min(known), max(known)) if known else (1.0, 1.0)
    rows = "".join(_row(layer, norms, low, high) for layer, norms in series.items())
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("first", "median", "least", "most"))
    return (
        f'<table class="layers"><caption>Layers of {escape(optimizer)}</caption><thead><tr>'
        f'<th scope="col">layer</th>{heads}<th scope="col">over time (log scale)</th>'
        f"</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(layer: str, norms: list[float], low: float, high: float) -> str:
    finite = [norm for norm in norms if math.isfinite(norm)]
    said = [norms[0], *(f(finite) if finite else math.nan for f in (median, min, max))]
    cells = "".join(f"<td>{number:.3g}</td>" for number in said)
    odd = "" if len(finite) == len(norms) else ' class="odd"'
    spark = _spark(finite, low, high)
    return f'<tr{odd}><th scope="row"><code>{escape(layer)}</code></th>{cells}<td>{spark}</td></tr>'


def _spark(norms: Sequence[float], low: float, high: float) -> str:
    width, height, most = SPARK
    size = max(1, math.ceil(len(norms) / most))
    means = [
        sum(norms[start : start + size]) / len(norms[start : start + size])
        for start in range(0, len(norms), size)
    ]
    span = math.log(high / low) or 1.0
    across = width / max(1, len(means) - 1)
    path = " ".join(
        f"{place * across:.1f},{(1 - math.log(max(mean, low) / low) / span) * (height - 2) + 1:.1f}"
        for place, mean in enumerate(means)
    )
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' aria-hidden="true"><polyline points="{path}"/></svg>'
    )
