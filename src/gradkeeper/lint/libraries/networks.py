"""Networks out of libraries, whose insides are not seen: parameters that train, and outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradkeeper.lint.interpreter.objects import BuiltIn, Instance, LibraryClass, visible
from gradkeeper.lint.interpreter.values import NONE, Call, Constant, Value
from gradkeeper.lint.libraries import torch
from gradkeeper.lint.libraries.leaves import Leaf
from gradkeeper.lint.libraries.nn import Loss, Module
from gradkeeper.lint.libraries.tensors import CUTS, KEEPS, PLAIN_ATTRIBUTES, SIGN_NAMES, Tensor, mix

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

BUILDS = ("from_pretrained", "from_config", "from_pretrained_model", "from_name", "load")


class Network(Module):
    """A network from a library. `mean`: the loss in what it returns is a mean over the batch."""

    __slots__ = ("mean",)

    def __init__(self, label: str = "", *, mean: bool = False, own: bool = True) -> None:
        Module.__init__(self, Leaf(label or "module") if own else None, label, seen=False)
        self.mean = mean

    @visible
    def add_adapter(self, call: Call) -> Value:
        """Layers beside those it has, which train even if the network was frozen before."""
        call.m.must_be_sure()
        self.children["adapter"] = Module(Leaf(f"{self.text}.adapter"), "adapter", seen=False)
        return NONE

    def call(self, call: Call) -> Value:
        if isinstance(self.me, Instance) and self.me.cls.member("forward") is not None:
            return Module.call(self, call)
        return self._output(call)

    def _output(self, call: Call) -> Output:
        made = mix(call.m, f"{self.text}()", self, *call.values())
        output = Output(
            made.text, made.flow, made.others, autocast=made.autocast, serial=made.serial
        )
        output.means = self.mean
        return output


class Output(Tensor):
    """What a network returns: a tensor, or a record of tensors."""

    __slots__ = ("means",)
    means: bool

    def _part(self, m: Machine, name: object) -> Part:
        made = self.like(m)
        made.reduction = "mean" if self.means and name in ("loss", 0) else None
        return Part(made)

    def attribute(self, m: Machine, name: str) -> Value:
        of_tensors = name in self.METHODS or name in OF_TENSORS or name.endswith("_")
        return Tensor.attribute(self, m, name) if of_tensors else self._part(m, name)

    def item(self, m: Machine, key: Value) -> Value:
        return self._part(m, key.value if isinstance(key, Constant) else None)


OF_TENSORS = CUTS | KEEPS | PLAIN_ATTRIBUTES | SIGN_NAMES.keys()


class Part(Tensor):
    """`output.loss`, `output.permute`: a tensor, or a method that gives one."""

    __slots__ = ()

    def __init__(self, of: Tensor) -> None:
        Tensor.__init__(
            self, of.text, of.flow, of.others, reduction=of.reduction, autocast=of.autocast
        )

    def call(self, call: Call) -> Value:
        return mix(call.m, self.text, self, *call.values())


def network(name: str, *, mean: bool = False, own: bool = True) -> LibraryClass:
    """A class of networks: built, loaded by one of its class methods, or derived from."""

    def make(call: Call) -> Value:
        return Network("", mean=mean, own=own)

    def half(instance: Instance, call: Call) -> Value:
        made = Network("", mean=mean, own=own)
        made.me = instance
        return made

    return LibraryClass(name, make, dict.fromkeys(BUILDS, make), half=half)


def _makes_network(name: str) -> BuiltIn:
    return BuiltIn(name, lambda call: Network(""))


def _loss(name: str) -> LibraryClass:
    return LibraryClass(name, lambda call: Loss(call.kwargs.get("reduction")))


def _loader(name: str) -> LibraryClass:
    return LibraryClass(name, torch.EXACT["torch.utils.data.DataLoader"])


def _among(prefixes: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"({'|'.join(map(re.escape, prefixes))})\.(\w+\.)*[A-Z]\w*")


LAYERS = _among(
    (
        "torchvision.models",
        "segmentation_models_pytorch",
        "torch_geometric.nn",
        "monai.networks.nets",
        "monai.networks.blocks",
        "open_clip",
        "efficientnet_pytorch",
        "x_transformers",
        "vit_pytorch",
        "sentence_transformers",
        "speechbrain.lobes.models",
        "peft",
    )
)
LOSSES = _among(
    ("kornia.losses", "monai.losses", "segmentation_models_pytorch.losses", "timm.loss")
)
LOADERS = frozenset(
    {
        "torch_geometric.loader.DataLoader",
        "torch_geometric.data.DataLoader",
        "monai.data.DataLoader",
    }
)
FACTORIES = re.compile(
    r"torchvision\.models\.(\w+\.)*(?!get_\w*weights?$|list_models$)[a-z]\w*|timm\.create_model|"
    r"timm\.models\.create_model|segmentation_models_pytorch\.create_model|clip\.load"
)
SUBMODULES = frozenset(
    {
        "torchvision.models." + name
        for name in ("detection", "segmentation", "video", "optical_flow", "quantization", "resnet")
    }
)


def find(m: Machine, name: str) -> Value | None:
    """A network, a loss or a loader of one of these packages."""
    if name in LOADERS:
        return _loader(name)
    if name == "torchdata.stateful_dataloader.StatefulDataLoader":
        return LibraryClass(name, torch.stateful_loader)
    if LOSSES.fullmatch(name):
        return _loss(name)
    if LAYERS.fullmatch(name):
        if name.endswith(("_Weights", "Weights", "Config")):
            return None
        return network(name)
    if name not in SUBMODULES and FACTORIES.fullmatch(name):
        return _makes_network(name)
    return None


PACKAGES = (
    "torchvision",
    "segmentation_models_pytorch",
    "torch_geometric",
    "monai",
    "kornia",
    "open_clip",
    "efficientnet_pytorch",
    "x_transformers",
    "vit_pytorch",
    "sentence_transformers",
    "torchdata",
)
