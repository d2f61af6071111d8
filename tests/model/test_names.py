"""How a person would name an optimizer or an account in a sentence."""

import pytest

from gradkeeper.model import Ledger, Site
from gradkeeper.model.account import Account
from gradkeeper.model.events import Adopt
from gradkeeper.model.site import variable

HERE = Site("train.py", 9)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("optimizer", "optimizer"),
        ("optimizer#12", "optimizer"),
        ("optimizer:3 of them", "optimizer"),
        ("optimizer:3 of them#2", "optimizer"),
        ('optimizers["dis"]', 'optimizers["dis"]'),
        ("models[1:].head", "models[1:].head"),
    ],
)
def test_what_a_front_end_added_to_a_name_is_not_told(name: str, told: str) -> None:
    assert variable(name) == told


def adopted(*optimizers: tuple[str, Site]) -> list[str]:
    ledger = Ledger()
    for number, (name, site) in enumerate(optimizers):
        ledger.post(Adopt(site=site, optimizer=name, accounts=(f"model {number}",)))
    return [one.named_from(HERE) for one in ledger.optimizers.values()]


def test_optimizers_are_told_by_their_variables() -> None:
    assert adopted(("opt_g", Site("train.py", 2)), ("opt_d", Site("train.py", 3))) == [
        "`opt_g`",
        "`opt_d`",
    ]


def test_those_that_share_one_are_told_by_where_they_were_built() -> None:
    here, elsewhere = Site("train.py", 2), Site("critic.py", 7)

    assert adopted(("opt", here), ("opt#2", elsewhere)) == [
        "`opt` of line 2",
        "`opt` of critic.py:7",
    ]


@pytest.mark.parametrize(
    ("parameters", "size", "told"),
    [
        (("net.fc2.weight", "net.fc2.bias"), 2, "`net.fc2`"),
        (("net.fc3.bias", "net.fc2.weight"), 2, "`net.fc2`, `net.fc3`"),
        (("net.scale",), 1, "`net.scale`"),
        (("net.fc2.weight",), 40, "`net.fc2` and others"),
        (("net.fc2.weight", "tensor(1,)"), 2, "`net.fc2` and others"),
        (("weight", "bias"), 2, "`decoder`"),
        ((), 1, "`decoder`"),
    ],
)
def test_layers_are_those_that_hold_the_parameters(
    parameters: tuple[str, ...], size: int, told: str
) -> None:
    assert Account("decoder#2", parameters=parameters, size=size).layers == told


def test_a_part_without_a_name_is_told_by_its_layers() -> None:
    part = Account("optimizer:2 of them", parameters=("net.a.weight", "net.b.weight"), size=2)

    assert part.label == "`net.a`, `net.b`"
    assert Account("net", parameters=part.parameters, size=2).label == "`net`"
