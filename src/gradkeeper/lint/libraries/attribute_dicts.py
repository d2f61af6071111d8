"""easydict, munch, addict, box and their like: dicts whose entries are attributes as well.

Networks and optimizers are kept in them, `optims.generator.step()`, and whole configurations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.containers import Dict, DictMethod
from gradkeeper.lint.interpreter.objects import BuiltIn
from gradkeeper.lint.interpreter.values import Call, Constant, Value
from gradkeeper.lint.libraries.builtins import make_dict

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

CLASSES = frozenset(
    {
        "addict.Dict",
        "attrdict.AttrDict",
        "box.Box",
        "dotmap.DotMap",
        "easydict.EasyDict",
        "ml_collections.ConfigDict",
        "ml_collections.config_dict.ConfigDict",
        "munch.Munch",
        "munch.DefaultMunch",
    }
)
PACKAGES = tuple(sorted({name.partition(".")[0] for name in CLASSES}))


class AttributeDict(Dict):
    """A dict that answers for its entries by their names, too; dicts in it do as well."""

    __slots__ = ()

    def attribute(self, m: Machine, name: str) -> Value:
        found = self.look(name)
        if found is not None:
            return found
        if hasattr(dict, name):
            return DictMethod(self, name)
        return Value.attribute(self, m, name)

    def set_attribute(self, m: Machine, name: str, value: Value) -> None:
        self.set_item(m, Constant(name), value)

    def set_item(self, m: Machine, key: Value, value: Value) -> None:
        Dict.set_item(self, m, key, _with_attributes(value))


def _with_attributes(value: Value) -> Value:
    if type(value) is not Dict:
        return value
    inner = {name: (key, _with_attributes(held)) for name, (key, held) in value.values.items()}
    return AttributeDict(inner, value.open)


def _make(call: Call) -> Value:
    return _with_attributes(make_dict(call))


def find(m: Machine, name: str) -> Value | None:
    return BuiltIn(name, _make) if name in CLASSES else None
