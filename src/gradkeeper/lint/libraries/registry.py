"""All libraries together: what the machine asks about everything that is not the program's own."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from gradkeeper.lint import guesses
from gradkeeper.lint.interpreter.containers import Range, Tuple
from gradkeeper.lint.interpreter.frames import Loop
from gradkeeper.lint.interpreter.objects import (
    BuiltIn,
    Function,
    Instance,
    Iterated,
    LibraryClass,
    Namespace,
    StandIn,
    flatten,
)
from gradkeeper.lint.interpreter.state import CYCLE
from gradkeeper.lint.interpreter.values import Call, Condition, Constant, Provenance, Unknown, Value
from gradkeeper.lint.libraries import (
    accelerate,
    amp,
    apex,
    attribute_dicts,
    builtins,
    data,
    deepspeed,
    distributed,
    fabric,
    gradkeeper,
    ignite,
    lightning,
    networks,
    other_optimizers,
    roles,
    standard_library,
    timm,
    torch,
    transformers,
    unknowns,
    unseen_code,
)
from gradkeeper.lint.libraries.leaves import leaves_in
from gradkeeper.lint.libraries.nn import MODULE, Module, module_of, take_along, unseen_network
from gradkeeper.lint.libraries.optim import stranger
from gradkeeper.lint.libraries.provenance import Fetched
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.libraries.tensors import Finite, Param, Tensor, weigh_unknown
from gradkeeper.lint.libraries.torch import InMode, NoSync
from gradkeeper.lint.libraries.trainer_loops import Framework
from gradkeeper.model import events as ev

if TYPE_CHECKING:
    from gradkeeper.lint.interpreter.machine import Machine

Find = Callable[["Machine", str], Value | None]


def _torch(m: Machine, name: str) -> Value | None:
    return distributed.find(m, name) or torch.find(m, name)


PACKAGES: dict[str, Find] = {
    "torch": _torch,
    "gradkeeper": gradkeeper.find,
    "accelerate": accelerate.find,
    **dict.fromkeys(("lightning", "pytorch_lightning"), lightning.find),
    **dict.fromkeys(("lightning_fabric", "lightning_lite"), fabric.find),
    **dict.fromkeys(("transformers", "trl", transformers.FORMER), transformers.find_transformers),
    "diffusers": transformers.find_diffusers,
    "peft": transformers.find_peft,
    "ignite": ignite.find,
    "deepspeed": deepspeed.find,
    "apex": apex.find,
    "timm": timm.find,
    "horovod": distributed.find_horovod,
    "torch_xla": distributed.find_xla,
    "opacus": other_optimizers.find_opacus,
    "composer": other_optimizers.find_composer,
    **dict.fromkeys(other_optimizers.PLAIN, other_optimizers.find_plain),
    **dict.fromkeys(networks.PACKAGES, networks.find),
    **dict.fromkeys(attribute_dicts.PACKAGES, attribute_dicts.find),
    **dict.fromkeys(standard_library.PACKAGES, standard_library.find),
}
SHOWN = (accelerate.Accelerator, fabric.Fabric)
"""Objects of frameworks that programs hand around, and that their use alone makes known."""
SHOWS = (accelerate.shown, fabric.shown)


class StandardLibraries:
    """The libraries that gradkeeper knows."""

    def find(self, m: Machine, name: str) -> Value | None:
        top = name.partition(".")[0]
        package = PACKAGES.get(top)
        if package is None:
            return None
        found = package(m, name)
        if found is not None:
            return found
        return Namespace(name, m.attributes_of(Constant(f"module {name}")), self._inside(m, name))

    def _inside(self, m: Machine, module: str) -> Callable[[str], Value | None]:
        def find(name: str) -> Value | None:
            dotted = f"{module}.{name}"
            package = PACKAGES[module.partition(".")[0]]
            found = package(m, dotted)
            if found is None and name.islower():
                return Namespace(
                    dotted, m.attributes_of(Constant(f"module {dotted}")), self._inside(m, dotted)
                )
            return found

        return find

    def builtin(self, m: Machine, name: str) -> Value | None:
        return builtins.builtin(name)

    def starred(self, m: Machine, name: str) -> Value | None:
        dotted = guesses.STARRED.get(name)
        return self.find(m, dotted) if dotted else None

    def native(self, m: Machine, instance: Instance, call: Call) -> Value | None:
        for base in instance.cls.libraries():
            if base is MODULE or base.key == MODULE.key:
                made = Module(None, "")
                made.me = instance
                return made
            if isinstance(base, LibraryClass):
                return self._library_half(m, base, instance, call)
            content = builtins.content(base, instance, call)
            if content is not None:
                return content
        for base in instance.cls.libraries():
            if isinstance(base, Unknown) and not _is_plain(base):
                made = unseen_network("")
                made.own = None
                made.seen = False
                made.me = instance
                return made
        return None

    def _library_half(
        self, m: Machine, base: LibraryClass, instance: Instance, call: Call
    ) -> Value | None:
        if base.half is not None:
            return base.half(instance, call)
        if base.name.startswith("torch.optim.lr_scheduler."):
            return base.make(Call(m, call.args, call.kwargs))
        if base.name.startswith("torch.optim."):
            made = stranger(m, instance.cls.name)
            made.named_by = False
            first = call.argument(0, "params")
            if first is None:
                return made
            made.owner.known = True
            if isinstance(instance.cls.member("__init__"), Function):
                made.foresee(m, first)
            else:
                made.take(m, first, base.text)
            return made
        if base.name.startswith("torch.distributions."):
            return torch.Distribution(call.values())
        if base.name.startswith("torch.nn."):
            inner = base.make(Call(m, call.args, call.kwargs))
            if isinstance(inner, Module):
                inner.me = instance
            return inner
        return None

    def call_unseen(self, what: Value, call: Call) -> Value:
        return unseen_code.unseen(what, call)

    def call_left_open(self, what: Unknown, call: Call) -> Value:
        why = f"`{what.text}` is left to classes that are not seen"
        call.m.state(RunTape).lose_sight(call.m, why)
        return unseen_code.unseen(what, call)

    def call_unknown(self, what: Unknown, call: Call) -> Value:
        if timm.called_as_scaler(call.m, what, call):
            return timm.step_by_unseen(call)
        return unknowns.call_unknown(what, call)

    def attribute_of_unknown(self, m: Machine, what: Unknown, name: str) -> Value:
        role = roles.role_of(m, what)
        known = self._shown(m, what, role)
        if known is not None:
            return known.attribute(m, name)
        if name == "no_sync":
            return BuiltIn(name, lambda call: NoSync())
        if name == "param_groups":
            found = roles.as_optimizer(m, what)
            if found is not None:
                return found.attribute(m, name)
        if isinstance(role, Module) and name in role.children:
            return role.children[name]
        return m.attribute_of(what, name)

    def _shown(self, m: Machine, what: Unknown, role: StandIn | None) -> StandIn | None:
        """A framework's object that was handed in: what is asked of it tells."""
        if isinstance(role, SHOWN):
            return role
        if role is None and what.fixed and not what.data:
            uses = roles.uses_of(m, what)
            for shown in SHOWS if "backward" in uses else ():
                made = shown(m, what, uses)
                if made is not None:
                    return roles.take_for(m, what, made)
        return None

    def set_attribute_of_unknown(self, m: Machine, what: Unknown, name: str, value: Value) -> None:
        m.write(m.attributes_of(what), name, value)
        unseen_code.hold(m, what, value)
        if name == "require_backward_grad_sync" or module_of(value) is not None:
            roles.as_module(m, what).set_attribute(m, name, value)
        elif name == "grad" and not what.data:
            m.doubt("gradients of tensors that are not seen are set by hand")
        elif name == "backward":
            m.doubt("what a backward of tensors that are not seen does is set by hand")
        elif name == "requires_grad":
            call = Call(m, [value])
            unknowns.METHODS["requires_grad_"](m, what, call)

    def weigh(
        self, m: Machine, made: Unknown, of: Unknown, sign: str, by: Value, *, swapped: bool
    ) -> None:
        weigh_unknown(m, made, of, sign, by, swapped=swapped)

    def enter_unknown(self, m: Machine, what: Unknown) -> Value:
        unseen_code.keep(m, what)
        return m.unknown(f"{what.text} as", what, part=True)

    def escape(self, m: Machine, value: Value) -> None:
        """Put into something unknown: whoever holds that may use it."""

    def fetched(self, m: Machine) -> Provenance:
        m.serial += 1
        return frozenset((Fetched(m.serial),))

    def used_up(self, m: Machine, value: Value, use: str) -> None:
        if any(isinstance(element, Param) for element in flatten([value])):
            m.state(RunTape).note(m, ev.Exhaust, use=use)

    def optimizer_in(self, m: Machine, value: Value) -> Value | None:
        return roles.as_optimizer(m, value)

    def decorated(self, m: Machine, decorator: Value, what: Value) -> Value | None:
        if isinstance(decorator, ignite.Registration):
            return decorator.call(Call(m, [what]))
        if isinstance(decorator, (torch.GradMode, amp.Autocast)):
            return InMode(decorator, what)
        if isinstance(decorator, BuiltIn) and decorator.name in (
            "torch.no_grad",
            "torch.inference_mode",
            "torch.enable_grad",
        ):
            mode = decorator.call(Call(m))
            return InMode(mode, what) if isinstance(mode, torch.GradMode) else what
        if isinstance(decorator, (Unknown, BuiltIn)) and isinstance(what, Function):
            return what
        return None

    def field_default(self, m: Machine, value: Value) -> Value:
        if isinstance(value, standard_library.RecordField):
            return value.made(m)
        if isinstance(value, Unknown) and value.text.endswith("field()"):
            return m.unknown("a field")
        return value

    def is_given(self, default: Value | None) -> bool:
        return not isinstance(default, standard_library.RecordField) or default.given

    def drive(self, m: Machine, instance: Instance, name: str) -> bool:
        half = instance.native
        return isinstance(half, Framework) and half.drive(m, name)

    # -- loops

    def loop_begins(self, m: Machine, loop: Loop) -> None:
        loop.begun = loop.round_begun = m.serial
        if loop.iterable is not None:
            unseen_code.keep(m, loop.iterable)
        if loop.kind == "batches" or id(loop.node) in m.facts.training_around:
            m.state(RunTape).loops.setdefault(loop.node, 0)
        if loop.kind == "batches":
            numbers = isinstance(loop.iterable, (Range, builtins.OpenRange))
            m.state(RunTape).goes_over.add("numbers" if numbers else "data")
        if self._is_epoch(m, loop):
            if isinstance(loop.node, (ast.For, ast.AsyncFor)):
                data.shuffle(m, loop, self._source(m, loop))
            m.state(RunTape).note(m, ev.EpochBegin, source=self._source(m, loop), site=loop.site)

    def round_begins(self, m: Machine, loop: Loop, element: Value | None) -> None:
        self.round_is_of(m, loop, element)
        rounds = m.state(RunTape).loops
        if loop.node in rounds:
            # The only round that there is shows as much as two.
            rounds[loop.node] += 2 if loop.exact and loop.rounds == 1 else 1

    def round_is_of(self, m: Machine, loop: Loop, element: Value | None) -> None:
        if loop.kind == "batches" and not _goes_over_tasks(m, loop, element):
            assert loop.site is not None
            tape = m.state(RunTape)
            fed_by = loop
            if len(m.loops) > 1 and _goes_over_losses(loop) and m.fills_window(loop.node):
                fed_by = m.loops[-2]
            tape.round_due = (self._source(m, fed_by), loop.site)
        elif loop.kind == "outer" and id(loop.node) in m.facts.credits_itself:
            assert loop.site is not None
            m.state(RunTape).round_due = (self._source(m, loop), loop.site)

    def loop_ends(self, m: Machine, loop: Loop) -> None:
        tape = m.state(RunTape)
        if loop.given_up and not (loop.total is not None and take_along(m, loop)):
            tape.given_up = True
        if loop.kind == "batches":
            tape.round_due = None
        if self._is_epoch(m, loop):
            tape.note(m, ev.EpochEnd, source=self._source(m, loop), site=loop.site)
        to_its_end = loop.exact or loop.ends_alike or loop.ended
        if loop.kind != "batches" and id(loop.node) in m.facts.credits and not to_its_end:
            tape.cut = tape.cut or tape.waiting

    def _is_epoch(self, m: Machine, loop: Loop) -> bool:
        """It steps, once for each of its batches or for a loop inside it that goes over losses."""
        if loop.kind == "batches":
            return not m.fills_window(loop.node)
        return id(loop.node) in m.facts.feeds

    def _source(self, m: Machine, loop: Loop) -> str:
        node = loop.node
        if isinstance(node, (ast.For, ast.AsyncFor)) and loop.iterable is not None:
            return f"{m.frame.file}:{node.lineno}"
        return f"{m.frame.file}:{getattr(node, 'lineno', 0)}"

    def default_answer(self, m: Machine, condition: Condition) -> bool | None:
        left = condition.left
        if condition.sign == "==" and m.comes_to(condition):
            return CYCLE in left.sources()
        if condition.sign == "==" and isinstance(left, Tensor):
            return False  # `if loss == 0: continue`: what is computed is hardly ever just that
        if isinstance(left, Finite):
            return left.good
        if condition.sign in ("any", "all") and isinstance(left, Finite):
            return left.good
        return None

    def waits(self, m: Machine) -> bool:
        return m.state(RunTape).waiting

    def beforehand(self, m: Machine) -> AbstractContextManager[None]:
        return m.state(RunTape).beforehand()

    def caught(self, m: Machine) -> None:
        pass


def _goes_over_losses(loop: Loop) -> bool:
    """They are of the batch that the loop around has."""
    over = loop.iterable.of if isinstance(loop.iterable, Iterated) else loop.iterable
    held = over.held() if over is not None else ()
    return any(leaves_in(value.sources()) for value in held)


def _goes_over_tasks(m: Machine, loop: Loop, element: Value | None) -> bool:
    """A loop that only credits goes over parts of a batch where each has a name, as batches have
    none: `for task, head in heads.items()`."""
    if id(loop.node) in m.facts.over_tasks:
        return True
    named = element.elements() if isinstance(element, Tuple) else [element]
    texts = [part for part in named if isinstance(part, Constant) and isinstance(part.value, str)]
    return bool(texts) and id(loop.node) in m.facts.fills


def _is_plain(base: Unknown) -> bool:
    """Bases that bring nothing of a network with them."""
    return base.text.rpartition(".")[2] in (
        "object",
        "ABC",
        "Exception",
        "Enum",
        "NamedTuple",
        "Generic",
        "Protocol",
        "dict",
        "list",
        "TypedDict",
    )
