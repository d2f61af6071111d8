"""Comprehensions: one round for each element that is known, or one for all."""

import ast
from typing import Any

from gradkeeper.lint.rehearsal import Rehearsal
from gradkeeper.lint.values import Loader, Opaque, Param, Params, Value

MOST = 8


def evaluate(r: Rehearsal, node: Any) -> Value:
    from gradkeeper.lint import expressions, loops, statements

    before = dict(r.frame.names)
    generator: ast.comprehension = node.generators[0]
    iterable = expressions.evaluate(r, generator.iter)
    loud = r.frame.survey is not None and node in r.frame.survey.loud
    result: Value = {} if isinstance(node, ast.DictComp) else []
    elements, known = loops.elements(r, iterable, generator.iter)
    if loud and not known:
        elements = [loops.element_of(r, iterable)] * r.batches
    for element in elements[: MOST if not loud else len(elements)]:
        if loud and not isinstance(element, Param):
            loops.fetch(r, node, iterable)
        statements.assign(r, generator.target, element, node)
        for inner in node.generators[1:]:
            found = expressions.evaluate(r, inner.iter)
            some, _ = loops.elements(r, found, inner.iter)
            for one in some[:1]:
                statements.assign(r, inner.target, one, node)
        if _refused(r, generator):
            continue
        _add(r, node, result)
    r.frame.names = before
    whole = not generator.ifs and len(node.generators) == 1
    if known:
        if whole and isinstance(result, list) and result:
            # Rounds beyond the first few would give the same again.
            result += [result[-1]] * (len(elements) - len(result))
        return _lazily(node, result)
    return _summary(result, loops.count_of(iterable) if whole else None)


def _lazily(node: Any, result: Value) -> Value:
    """A generator of parameters is empty after its first use."""
    if isinstance(node, ast.GeneratorExp) and isinstance(node.elt, ast.Name) and result:
        if all(isinstance(one, Param) for one in result):
            nodes = dict.fromkeys(part for one in result for part in one.nodes)
            return Params(tuple(nodes), "generator", oneshot=True)
    return result


def _refused(r: Rehearsal, generator: ast.comprehension) -> bool:
    """Only what is known to be left out is left out."""
    from gradkeeper.lint.expressions import test

    return any(test(r, one)[0] is False for one in generator.ifs)


def _add(r: Rehearsal, node: Any, result: Value) -> None:
    from gradkeeper.lint.expressions import evaluate as value_of

    if isinstance(node, ast.DictComp):
        key = value_of(r, node.key)
        if not isinstance(key, (str, int)):
            key = "…"
        result[key] = value_of(r, node.value)
    else:
        result.append(value_of(r, node.elt))


def _summary(result: Value, length: int | None) -> Value:
    """A list of unknown length: known by what its one element is."""
    if isinstance(result, dict) or not result:
        return result
    first = result[0]
    if isinstance(first, tuple) and all(_is_data(one) for one in first):
        return Opaque("[batch]", data=True, length=length, inner=first)
    if isinstance(first, (Opaque, Loader)) and not (isinstance(first, Opaque) and first.leaf):
        if isinstance(first, Opaque):
            return Opaque(
                f"[{first.name}]",
                first.flow,
                first.maybe,
                multiplier=first.multiplier,
                reduction=first.reduction,
                data=first.data,
                length=length,
                hints=first.hints,
                inner=first,
            )
    return result


def _is_data(value: Value) -> bool:
    if isinstance(value, Opaque):
        return not (value.flow or value.maybe or value.node or value.role or value.leaf)
    return value is None or isinstance(value, (int, float, str))
