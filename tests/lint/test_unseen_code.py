"""What is not seen: callers, set-up methods, makers of models. No fault is laid at its door.

Each program says itself what has to be found in it: a line that ends in `# <- GK101` gets that
finding, and no other line gets any.
"""

import ast
import re
from textwrap import dedent

import pytest

from gradkeeper.lint.rehearse import rehearse_files
from gradkeeper.model.finding import Severity
from gradkeeper.rules import ALL


def told(source: str) -> list[tuple[int, str]]:
    checked = rehearse_files({"train.py": ast.parse(source)}, tuple(ALL))["train.py"]
    return sorted(
        (one.site.line, one.rule) for one in checked.findings if one.severity is not Severity.INFO
    )


def expected(source: str) -> list[tuple[int, str]]:
    marks = [
        (number, found[1])
        for number, line in enumerate(source.splitlines(), 1)
        if (found := re.search(r"# <- (GK\d+)$", line))
    ]
    return sorted(marks)


SET_UP = """
    import torch

    from networks import Net

    class Trainer:
        def initialize(self, path, is_train=False):
            self.net = Net()
            if not is_train:
                self.net.load_state_dict(torch.load(path))
            if is_train:
                self.optimizer = torch.optim.Adam(self.net.parameters())

        def optimize(self, x, y):
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
LOADED_IN_BETWEEN = """
    import torch

    from networks import Net

    class Trainer:
        def initialize(self):
            self.net = Net()
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def optimize(self, x, y, path):
            loss = torch.nn.functional.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.net.load_state_dict(torch.load(path))
            self.optimizer.step()  # <- GK403
"""
EMPTIED_AND_FILLED = """
    import torch

    class Explainer:
        def __init__(self):
            self.mask = self.hard = None

        def begin(self, x):
            self.mask = torch.nn.Parameter(torch.randn(len(x)))
            self.hard = None

        def reset(self):
            self.mask = self.hard = None

        def fit(self, model, x, y):
            self.begin(x)
            optimizer = torch.optim.Adam([self.mask], lr=0.01)
            for i in range(100):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x * self.mask.sigmoid()), y)
                if self.hard is not None:
                    loss = loss + self.mask[self.hard].sigmoid().sum()
                loss.backward()
                optimizer.step()
                if i == 0:
                    self.hard = self.mask.grad != 0
"""
MADE_ANEW = """
    import torch

    class Explainer:
        def begin(self, x):
            self.mask = torch.nn.Parameter(torch.randn(len(x)))

        def fit(self, model, x, y):
            self.begin(x)
            optimizer = torch.optim.Adam([self.mask], lr=0.01)
            self.begin(x)
            for i in range(100):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(x * self.mask.sigmoid(), y)
                loss.backward()
                optimizer.step()  # <- GK103
"""
TWO_OF_A_CLASS_THAT_IS_HANDED_IN = """
    import torch

    class Gan:
        def __init__(self, modules, make, scaler):
            self.modules, self.make, self.scaler = modules, make, scaler

        def init_optimizers(self):
            self.first = self.make(self.modules.generator.parameters())
            self.second = self.make(self.modules.discriminator.parameters())

        def fit_batch(self, x):
            loss = self.modules.discriminator(self.modules.generator(x).detach()).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.second)
            self.second.zero_grad()
            loss = self.modules.discriminator(self.modules.generator(x)).mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.first)
            self.first.zero_grad()
            self.scaler.update()
"""
FILLED_ELSEWHERE = """
    def receive(server, grads):
        for p, g in zip(server.model.parameters(), grads):
            p.grad += g
        server.optimizer.step()
        server.optimizer.zero_grad(set_to_none=False)
"""
EMPTIED_HERE = """
    def receive(model, optimizer, grads):
        optimizer.zero_grad()
        for p, g in zip(model.parameters(), grads):
            p.grad += g  # <- GK601
        optimizer.step()
"""
OPTIMIZER_THAT_COPIES = """
    import torch

    class InBackward(torch.optim.Optimizer):
        def __init__(self, params, lr):
            params = list(params)
            self.inner = {i: torch.optim.Adam([p], lr=lr) for i, p in enumerate(params)}
            super().__init__(params, {"lr": lr})

    model = torch.nn.Linear(4, 1)
    optimizer = InBackward(model.parameters(), 0.1)
"""
OPTIMIZER_THAT_USES_UP = """
    import torch

    class Counting(torch.optim.Optimizer):
        def __init__(self, params, lr):
            self.count = len(list(params))
            super().__init__(params, {"lr": lr})  # <- GK306

    model = torch.nn.Linear(4, 1)
    optimizer = Counting(model.parameters(), 0.1)
"""
STEP_THAT_IS_HARD_TO_FOLLOW = """
    import torch

    from kernels import update

    class Batched(torch.optim.Optimizer):
        def __init__(self, params, lr):
            groups, self.names = self.sorted(params)
            super().__init__(groups, {"lr": lr})

        def sorted(self, params):
            found = [{"params": [p for p in params]}]
            return found, [g.get("names") for g in found]

        @torch.no_grad()
        def step(self, closure=None):
            for group, names in zip(self.param_groups, self.names):
                update(group, names)

    model = torch.nn.Linear(4, 1)
    optimizer = Batched(model.parameters(), 0.1)
    for x in torch.randn(20, 8, 4):
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
NOT_ZEROED_BEFORE_A_STEP_THAT_IS_HARD_TO_FOLLOW = STEP_THAT_IS_HARD_TO_FOLLOW.replace(
    "        optimizer.zero_grad()\n", ""
).replace("optimizer.step()", "optimizer.step()  # <- GK101")
NO_PARAMETERS_IN_SIGHT = """
    import torch

    from adapters import wrap

    def train(net, loader):
        adapter = wrap(net)
        params = []
        for name, module in adapter.found.items():
            if module.kind == "up":
                params.extend(p for p in module.weights)
        optimizer = torch.optim.Adam(params)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
"""
ONE_MAY_BE_A_PART_OF_THE_OTHER = """
    import torch

    def warm_up(student, parts, loader):
        parts.train()
        optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(student(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
TWO_THAT_ARE_MADE_HERE = """
    import torch

    student = torch.nn.Linear(4, 1)
    parts = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    for x in torch.randn(20, 8, 4):
        loss = student(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # <- GK103
"""
LEFT_TO_SUBCLASSES = """
    import torch

    class Base:
        def __init__(self, model, size):
            self.model, self.size = model, size
            self.optimizer = torch.optim.Adam(model.parameters())

        def compute_loss(self, batch):
            raise NotImplementedError

        def fit(self, loader):
            for epoch in range(10):
                for i, batch in enumerate(loader):
                    loss = self.compute_loss(batch) / self.size
                    loss.backward()
                    if (i + 1) % self.size == 0:
                        self.optimizer.step()
                        self.optimizer.zero_grad()
                self.optimizer.zero_grad()
"""
CLEARED_ON_EVERY_BATCH = LEFT_TO_SUBCLASSES.replace(
    "                loss = self",
    "                self.optimizer.zero_grad()  # <- GK102\n{}loss = self",
).format(" " * 20)
COUNTED_FROM_A_CHECKPOINT = """
    import torch

    def train(model, loader, path, size):
        optimizer = torch.optim.Adam(model.parameters())
        state = torch.load(path)
        done = state["step"]
        optimizer.zero_grad()
        for epoch in range(10):
            for batch in loader:
                (model(batch).mean() / size).backward()
                done += 1
                if done % size == 0:
                    optimizer.step()
                    optimizer.zero_grad()
"""
COUNTED_AND_CLEARED_ON_EVERY_BATCH = COUNTED_FROM_A_CHECKPOINT.replace(
    "                (model", "                optimizer.zero_grad()  # <- GK102\n{}(model"
).format(" " * 16)
TWO_LOSSES_IN_WINDOWS = """
    import torch

    def train(one, other, make_loss, loader, size):
        first = torch.optim.Adam(one.parameters())
        second = torch.optim.Adam(other.parameters())
        for i, batch in enumerate(loader):
            loss = make_loss(batch, 0) / size
            loss.backward()
            if (i + 1) % size == 0:
                first.step()
                first.zero_grad()
            loss = make_loss(batch, 1) / size
            loss.backward()
            if (i + 1) % size == 0:
                second.step()
                second.zero_grad()
"""
TWO_LOSSES_CLEARED_ON_EVERY_BATCH = """
    import torch

    def train(one, other, make_loss, loader, size):
        first = torch.optim.Adam(one.parameters())
        second = torch.optim.Adam(other.parameters())
        for i, batch in enumerate(loader):
            loss = make_loss(batch, 0) / size
            first.zero_grad()  # <- GK102
            loss.backward()
            if (i + 1) % size == 0:
                first.step()
            loss = make_loss(batch, 1) / size
            second.zero_grad()  # <- GK102
            loss.backward()
            if (i + 1) % size == 0:
                second.step()
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(SET_UP, id="a set-up method runs once, and before anything else"),
        pytest.param(LOADED_IN_BETWEEN, id="weights are loaded between backward and step"),
        pytest.param(EMPTIED_AND_FILLED, id="a method that empties attributes provides none"),
        pytest.param(MADE_ANEW, id="the program itself makes the parameter anew"),
        pytest.param(TWO_OF_A_CLASS_THAT_IS_HANDED_IN, id="two optimizers of an unseen class"),
        pytest.param(FILLED_ELSEWHERE, id="who made a model may have filled its gradients"),
        pytest.param(EMPTIED_HERE, id="what was set to None here is None"),
        pytest.param(OPTIMIZER_THAT_COPIES, id="an optimizer's own __init__ reads its parameters"),
        pytest.param(OPTIMIZER_THAT_USES_UP, id="an optimizer's own __init__ uses them up"),
        pytest.param(STEP_THAT_IS_HARD_TO_FOLLOW, id="a step over unseen things is a step"),
        pytest.param(NOT_ZEROED_BEFORE_A_STEP_THAT_IS_HARD_TO_FOLLOW, id="such steps, no zero"),
        pytest.param(NO_PARAMETERS_IN_SIGHT, id="an optimizer has parameters, seen or not"),
        pytest.param(ONE_MAY_BE_A_PART_OF_THE_OTHER, id="two models that are handed in"),
        pytest.param(TWO_THAT_ARE_MADE_HERE, id="two models that are made here"),
        pytest.param(LEFT_TO_SUBCLASSES, id="a loss that subclasses compute"),
        pytest.param(CLEARED_ON_EVERY_BATCH, id="such a loss, and a window cleared too often"),
        pytest.param(COUNTED_FROM_A_CHECKPOINT, id="a window counted from a checkpoint on"),
        pytest.param(COUNTED_AND_CLEARED_ON_EVERY_BATCH, id="such a window, cleared too often"),
        pytest.param(TWO_LOSSES_IN_WINDOWS, id="two unseen losses, each for its own optimizer"),
        pytest.param(TWO_LOSSES_CLEARED_ON_EVERY_BATCH, id="such losses, cleared too often"),
    ],
)
def test_a_finding_stands_on_the_marked_lines_alone(program: str) -> None:
    source = dedent(program)

    assert told(source) == expected(source)
