"""Faults as programs hide them, each beside a correct twin that must stay silent.

A line that a finding belongs to ends in `# <- GK101`.
"""

import ast
import re
from textwrap import dedent

import pytest

from gradkeeper.lint.program import may_train
from gradkeeper.lint.rehearse import rehearse_files
from gradkeeper.model.finding import Severity
from gradkeeper.rules import ALL

MARK = re.compile(r"# <- (GK\d+)$")


def told(source: str) -> set[tuple[str, int]]:
    found = rehearse_files({"train.py": ast.parse(source)}, tuple(ALL))["train.py"].findings
    return {(one.rule, one.site.line) for one in found if one.severity is not Severity.INFO}


def marked(source: str) -> set[tuple[str, int]]:
    lines = enumerate(source.splitlines(), 1)
    return {(mark[1], number) for number, line in lines if (mark := MARK.search(line))}


FAULTY: dict[str, str] = {}
CORRECT: dict[str, str] = {}


def twins(name: str, faulty: str, correct: str) -> None:
    FAULTY[name], CORRECT[name] = dedent(faulty).lstrip(), dedent(correct).lstrip()


NEVER_STEPPED = """
    import torch
    from texts import Classifier, adjust_learning_rate, batches

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches():
        loss = model(x, y)
        loss.backward()  # <- GK107
        adjust_learning_rate(optimizer, 0.1)
"""
CALLED_LIKE_A_METHOD = """
    import torch
    from torch import nn


    {wrapper}
    def one_epoch(model, loader, opt):
        model.train()
        for x, y in loader:
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()  {mark}


    def train(model, loader, epochs):
        opt = {opt}
        for epoch in range(epochs):
            one_epoch(model, loader, opt)
"""
ADAM = "torch.optim.Adam(model.parameters())"
twins(
    "a function called `train`, beside the network's own",
    CALLED_LIKE_A_METHOD.format(wrapper="", opt=ADAM, mark="# <- GK101"),
    CALLED_LIKE_A_METHOD.format(
        wrapper="""
    class Zeroing:
        def __init__(self, opt):
            self.opt = opt

        def step(self):
            self.opt.step()
            self.opt.zero_grad()

""",
        opt=f"Zeroing({ADAM})",
        mark="",
    ),
)
twins(
    "an optimizer of another network, in a function called `train`",
    """
    import torch
    from torch import nn


    def one_epoch(model, loader, opt):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()  # <- GK103


    def train(loader, epochs):
        old, model = nn.Linear(4, 2), nn.Linear(4, 3)
        opt = torch.optim.Adam(old.parameters())
        for epoch in range(epochs):
            one_epoch(model, loader, opt)
    """,
    """
    import torch
    from torch import nn


    def one_epoch(model, loader, opt):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()


    def train(loader, epochs):
        model = nn.Linear(4, 3)
        opt = torch.optim.Adam(model.parameters())
        for epoch in range(epochs):
            one_epoch(model, loader, opt)
    """,
)
RATES = """
    import torch

    class Warmup:
        def __init__(self, optimizer):
            self.optimizer, self.steps = optimizer, 0

        def step(self):
            self.steps += 1
            for group in self.optimizer.param_groups:
                group["lr"] = self.steps**-0.5
            self.optimizer.step()  {mark}

    model = torch.nn.Linear(4, 1)
    warmup = Warmup(torch.optim.Adam(model.parameters()))
    for place in range(1000):
        {forward}
        warmup.step()
"""
twins(
    "steps of a schedule by hand, in a training or to see its rates",
    RATES.format(mark="# <- GK103", forward="loss = model(torch.randn(8, 4)).square().mean()"),
    RATES.format(mark="", forward="print(warmup.steps)"),
)
WHEN_BEST = """
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    best = 9.0
    if args.resume:
        last = torch.load("last.pt")
        model.load_state_dict(last["model"])  {mark}
        {restored}
    for epoch in range(10):
        for x in torch.randn(6, 8, 4):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        if loss.item() < best:
            state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
            torch.save(state, "last.pt")
"""
twins(
    "a resume without the optimizer, from a file that the best epoch writes",
    WHEN_BEST.format(mark="# <- GK404", restored=""),
    WHEN_BEST.format(mark="", restored='optimizer.load_state_dict(last["optimizer"])'),
)
BEST_IS_SAVED = """
    import torch
    from torch import nn


    def train(model, opt, loader, epochs, accumulate=None):
        best = float("inf")
        criterion = nn.CrossEntropyLoss()
        for epoch in range(epochs):
            total = 0.0
            for i, (x, y) in enumerate(loader, start=1):
                loss = criterion(model(x), y){share}
                loss.backward()
                if not accumulate or i % accumulate == 0:
                    opt.step()  {mark}
                    opt.zero_grad()
                total += loss.item()
            if total < best:
                best = total
                torch.save(model.state_dict(), "best.pt")
"""
twins(
    "a window that is an option, where the best model is saved",
    BEST_IS_SAVED.format(share="", mark="# <- GK201"),
    BEST_IS_SAVED.format(share=" / (accumulate or 1)", mark=""),
)
OF_A_GRAPH = """
    import torch
    import torch.nn.functional as F
    from torch import nn
    {imports}

    net = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(net.parameters())
    for x in torch.randn(100, 8, 4):
        {forward}
        loss = -F.logsigmoid({score}).mean().requires_grad_()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  {mark}
"""
twins(
    "a loss that is made to want a gradient, cut off or by way of something that is not seen",
    OF_A_GRAPH.format(
        imports="", forward="score = net(x).detach()", score="score", mark="# <- GK103"
    ),
    OF_A_GRAPH.format(
        imports="import dgl\n\n    graph = dgl.load_graphs('graph.bin')[0][0]",
        forward="graph.ndata['emb'] = net(x); graph.apply_edges(dgl.function.u_dot_v)",
        score="graph.edata['score']",
        mark="",
    ),
)
FOUR_OPTIMIZERS = """
    import torch
    from torch import nn

    nets = [nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)]
    first = torch.optim.Adam(nets[0].parameters())
    second = torch.optim.Adam(nets[1].parameters())
    third = torch.optim.Adam(nets[2].parameters())
    fourth = torch.optim.Adam(nets[3].parameters())
    optimizers = [first, second, third, fourth]
    for x in torch.randn(100, 8, 2):
        for net in nets:
            x = net(x)
        for optimizer in {zeroed}:
            optimizer.zero_grad()
        x.pow(2).mean().backward()
        for {stepped}:
            optimizer.step()  {mark}
"""
for way, stepped in {
    "numbered": "place, optimizer in enumerate(optimizers)",
    "zipped": "optimizer, rate in zip(optimizers, [1, 2, 3, 4])",
}.items():
    twins(
        f"four optimizers in a list that is {way}",
        FOUR_OPTIMIZERS.format(zeroed="optimizers[:3]", stepped=stepped, mark="# <- GK101"),
        FOUR_OPTIMIZERS.format(zeroed="optimizers", stepped=stepped, mark=""),
    )
twins(
    "an optimizer that is built and never stepped",
    NEVER_STEPPED,
    """
    import torch
    from texts import Classifier, batches, finish

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in batches():
        loss = model(x, y)
        loss.backward()
        finish(optimizer)
    """,
)

STARRED = """
    from networks import *

    model = Net()
    optimizer = optim.Adam(model.parameters())
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        {first}
        {second}
"""
CLIPS = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
twins(
    "torch by a star import, clipped after the step",
    STARRED.format(first="optimizer.step()", second=CLIPS + "  # <- GK304"),
    STARRED.format(first=CLIPS, second="optimizer.step()"),
)
twins(
    "torch itself by a star import, clipped after the step",
    STARRED.format(first="optimizer.step()", second=f"torch.{CLIPS}  # <- GK304"),
    STARRED.format(first=f"torch.{CLIPS}", second="optimizer.step()"),
)

STARRED_HEAD = """
    from networks import *

    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = optim.SGD({owned}, lr=0.1)
    for x in batches():
        optimizer.zero_grad()
        head(body(x)).mean().backward()
        optimizer.step(){mark}
"""
twins(
    "an optimizer by a star import, which is not given the head",
    STARRED_HEAD.format(owned="body.parameters()", mark="  # <- GK105"),
    STARRED_HEAD.format(owned="[*body.parameters(), *head.parameters()]", mark=""),
)

STARRED_LOSS = """
    from networks import *

    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches()):
        loss = F.mse_loss(model(x), y)
        ({loss}).backward()
        if (number + 1) % 4 == 0:
            optimizer.step(){mark}
            optimizer.zero_grad()
"""
twins(
    "a mean loss by a star import, four of which are spent together",
    STARRED_LOSS.format(loss="loss", mark="  # <- GK201"),
    STARRED_LOSS.format(loss="loss / 4", mark=""),
)

LOOKED_AT = """
    from accelerate import Accelerator
    from recipes import build, get_optimizer, get_scheduler, options

    args = options()
    accelerator = Accelerator(gradient_accumulation_steps=1)
    network, loader = build(args)
    optimizer = get_optimizer(args, list(network.parts()))
    scheduler = get_scheduler(args, optimizer)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    for x in loader:
        {first}
        accelerator.backward(network(x).mean())
        {second}
        optimizer.step()
        accelerator.log({{"lr": scheduler.optimizers[-1].param_groups[0]["lr"]}})
"""
twins(
    "zeroed before each step, beside an optimizer that is only looked at",
    LOOKED_AT.format(first="pass", second="optimizer.zero_grad()  # <- GK102"),
    LOOKED_AT.format(first="optimizer.zero_grad()", second="pass"),
)

UNDER_ONE_OF_MANY = """
    import torch
    from recipes import build, describe, options

    def main(args):
        model, loader = build(args)
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.cuda.amp.GradScaler()
        if args.debug:
            return describe(model)
        for x in loader:
            {first}
            loss = model(x).mean()
            if args.amp:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            else:
                loss.backward()
                {second}
                optimizer.step()
            if args.watch:
                optimizer.param_groups[0]["lr"] = args.rate
            if args.save:
                torch.save(model.state_dict(), args.save)
            if args.keep:
                torch.save(optimizer.state_dict(), args.keep)

    main(options())
"""
twins(
    "one setting of many, beside one without which nothing trains",
    UNDER_ONE_OF_MANY.format(first="pass", second="optimizer.zero_grad()  # <- GK102"),
    UNDER_ONE_OF_MANY.format(first="optimizer.zero_grad()", second="pass"),
)

FROM_A_QUEUE = """
    import torch
    from recipes import Net, start_workers

    def train(workers):
        model = Net()
        optimizer = torch.optim.Adam(model.parameters())
        queue = start_workers(workers)
        while True:
            x = queue.get()
            if x.shape[0] == 0:
                workers -= 1
                if workers == 0:
                    break
                else:
                    continue
            {zero}
            model(x).mean().backward()
            optimizer.step(){mark}
"""
twins(
    "batches from a queue, whose empty ones are left out or the last",
    FROM_A_QUEUE.format(zero="pass", mark="  # <- GK101"),
    FROM_A_QUEUE.format(zero="optimizer.zero_grad()", mark=""),
)


def test_a_file_without_a_step_is_looked_at_if_it_builds_an_optimizer() -> None:
    assert may_train(dedent(NEVER_STEPPED).encode())


def test_a_file_that_only_runs_backward_is_not() -> None:
    assert not may_train(b"import torch\nmodel(x).sum().backward()\nprint(x)\n")


def test_a_file_that_forgets_backward_and_zeroing_is() -> None:
    built = b"import torch\noptimizer = torch.optim.SGD(model.parameters())\n"

    assert may_train(built + b"optimizer.step()\n")
    assert not may_train(built)


LOGGED = """
    import torch
    from tqdm import tqdm
    from texts import Model, loader_for

    def train(config):
        model = Model()
        optimizer = torch.optim.Adam(model.parameters(), lr=config.train.lr)
        accumulation = config.train.batch_size // config.train.micro_batch_size
        for epoch in range(config.train.epochs):
            loader = loader_for(config)
            for step, batch in tqdm(enumerate(loader), total=len(loader)):
                loss = model(batch){divided}
                loss.backward()
                if (step + 1) % accumulation == 0:
                    optimizer.step(){mark}
                    optimizer.zero_grad()
                if step == 0 or step % 20 == 0:
                    tqdm.write(f"step {{step}}")
                if config.train.wandb:
                    print(loss.item())
"""
twins(
    "a variable named step, and an option named train",
    LOGGED.format(divided="", mark="  # <- GK201"),
    LOGGED.format(divided=" / accumulation", mark=""),
)

CLIPPED = """
    import torch
    from torch.nn.utils import clip_grad_norm_
    from saes import SAETransformer, calc_loss

    def train(config, loader):
        model = SAETransformer(config)
        model.saes.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
        samples = 0
        samples_at_last_eval = 0
        for i, batch in enumerate(loader):
            samples += batch.shape[0]
            if samples - samples_at_last_eval >= config.eval_every_n_samples:
                model.saes.eval()
                samples_at_last_eval = samples
                model.saes.train()
            out = model.forward(batch)
            loss = calc_loss(out, config.loss) / config.accumulation
            loss.backward()
            {every}
            if (i + 1) % config.accumulation == 0:
                {once}
                optimizer.step()
                optimizer.zero_grad()
"""
CLIP = "clip_grad_norm_(model.saes.parameters(), config.max_norm)"
twins(
    "a part of a network that is used before the whole",
    CLIPPED.format(every=f"{CLIP}  # <- GK304", once="pass"),
    CLIPPED.format(every="pass", once=CLIP),
)

OWN_LOSS = """
    import torch
    from problems import problem, loader, config

    task = problem.Task(config.model)
    optimizer = torch.optim.Adam(task.parameters())
    accum_grad_steps = 0
    while True:
        for batch in loader:
            result = task.train_step(**batch)
            loss = result.loss{divided}
            loss.backward()
            accum_grad_steps += 1
            if accum_grad_steps == config.gradient_accumulate_steps:
                optimizer.step(){mark}
                optimizer.zero_grad()
                accum_grad_steps = 0
"""
twins(
    "a loss that a method of the network computes",
    OWN_LOSS.format(divided="", mark="  # <- GK201"),
    OWN_LOSS.format(divided=" / config.gradient_accumulate_steps", mark=""),
)
twins(
    "a loss that somebody else computes, who may have divided",
    OWN_LOSS.format(divided="", mark="  # <- GK201"),
    OWN_LOSS.format(divided="", mark="").replace("task.train_step", "problem.train_step"),
)

SKIPPED = """
    import torch
    from speech import Model, loader, options

    model = Model(options)
    if options.a: model.a()
    if options.b: model.b.requires_grad_(False)
    if options.c: model.c.requires_grad_(False)
    if options.d: model.d.requires_grad_(False)
    if options.e: model.e.requires_grad_(False)
    if options.f: model.f.requires_grad_(False)
    if options.g: model.g.requires_grad_(False)
    if options.h: model.h.requires_grad_(False)
    if options.i: model.i.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        try:
            loss = model(batch)
            loss.backward()
            optimizer.step(){mark}
            optimizer.zero_grad()
        except RuntimeError:
            print("out of memory")
            {cleared}
"""
twins(
    "an interrupted backward among many options",
    SKIPPED.format(mark="  # <- GK605", cleared="torch.cuda.empty_cache()"),
    SKIPPED.format(mark="", cleared="optimizer.zero_grad()"),
)


NOT_UPDATED = """
    import torch
    from torch.cuda.amp import GradScaler, autocast
    from speech import get_model, get_params, loader

    params = get_params()
    model = get_model(params)
    optimizer = torch.optim.Adam(model.parameters())
    scaler = GradScaler(enabled=params.use_fp16)
    for batch in loader:
        params.batch_idx_train += 1
        with autocast(enabled=params.use_fp16):
            loss = model(batch)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer){mark}
        {always}
        if params.batch_idx_train % 100 == 0 and params.use_fp16:
            scale = scaler._scale.item()
            if scale < 8.0:
                scaler.update(scale * 2.0)
"""
twins(
    "an update every hundred steps",
    NOT_UPDATED.format(mark="  # <- GK303", always="pass"),
    NOT_UPDATED.format(mark="", always="scaler.update()"),
)

OBSERVED = """
    import torch
    from continual import ContinualModel

    class Prompt(ContinualModel):
        def __init__(self, backbone, loss, args):
            super().__init__(backbone, loss, args)
            self.opt = torch.optim.Adam(self.net.parameters())

        def end_task(self, dataset):
            self.opt.zero_grad()
            self.opt = torch.optim.SGD(self.net.parameters())

        def observe(self, inputs, labels):
            {every}
            loss = self.loss(self.net(inputs), labels)
            if self.epoch_iteration == 0:
                self.opt.zero_grad()
            (loss / self.args.virtual_bs_n).backward()
            if self.epoch_iteration > 0 and self.epoch_iteration % self.args.virtual_bs_n == 0:
                self.opt.step()
                self.opt.zero_grad()
            return loss.item()
"""
twins(
    "a window that is counted by a base class out of sight",
    OBSERVED.format(every="self.opt.zero_grad()  # <- GK102"),
    OBSERVED.format(every="self.net.train()"),
)

WEIGHED = """
    import torch
    from torch.nn import functional as F
    from agents import make_actor, make_critic, args, loader, rewards_of

    actor, critic = make_actor(), make_critic()
    actor_optimizer = torch.optim.Adam(actor.parameters())
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for epoch in range(args.epochs):
        for step, batch in enumerate(loader, start={start}):
            values = critic(batch)
            mask = (batch != 0).long()
            policy = ((actor(batch) * mask).sum(dim=1) / mask.sum(dim=1)).mean()
            value = F.mse_loss(values, rewards_of(batch))
            loss = (policy + args.value_weight * value) / args.accumulation_steps
            loss.backward()
            if (step + 1) % args.accumulation_steps == 0:
                actor_optimizer.step(){mark}
                critic_optimizer.step(){mark}
                actor_optimizer.zero_grad()
                critic_optimizer.zero_grad()
        actor_optimizer.zero_grad()
        critic_optimizer.zero_grad()
"""
twins(
    "a sum of weighed losses, divided by the window",
    WEIGHED.format(start=1, mark="  # <- GK202"),
    WEIGHED.format(start=0, mark=""),
)

WEIGHED_BY_OPTIONS = """
    import torch
    from torch.nn import functional as F
    from tasks import TwoHeads, args, loader

    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y, z) in enumerate(loader):
        first, second = model(x)
        loss = {weight}F.mse_loss(first, y) + args.second_weight * F.mse_loss(second, z)
        loss.backward()
        if (i + 1) % args.accumulation_steps == 0:
            optimizer.step(){mark}
            optimizer.zero_grad()
"""
twins(
    "a sum in which an option weighs each loss: it may divide them, too",
    WEIGHED_BY_OPTIONS.format(weight="", mark="  # <- GK201"),
    WEIGHED_BY_OPTIONS.format(weight="args.first_weight * ", mark=""),
)

EACH = """
    import torch
    from torch.optim import Optimizer
    from texts import Model, loader

    class InBackward(Optimizer):
        def __init__(self, params, kind):
            params = list(params)
            self.each = {{p: kind([p]) for p in params}}
            super().__init__(params, {{}})

        def step(self, closure=None):
            for one in self.each.values():
                one.step()

        def zero_grad(self, set_to_none=True):
            for one in self.each.values():
                one.zero_grad()

    model = Model()
    params = model.parameters()
    {used}
    optimizer = InBackward(params, torch.optim.SGD)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""


def test_an_optimizer_of_the_program_reads_its_parameters_once() -> None:
    source = dedent(EACH.format(used="print(model)"))

    assert "GK306" not in {rule for rule, _ in told(source)}


def test_an_iterator_that_was_used_up_before_is_told_there_too() -> None:
    source = dedent(EACH.format(used="print(sum(p.numel() for p in params))"))

    assert "GK306" in {rule for rule, _ in told(source)}


REBOUND = """
    import torch
    from images import build_model, load_weights, loader, config

    def define_optimizer(g_model, d_model):
        g_optimizer = torch.optim.Adam(g_model.parameters())
        d_optimizer = torch.optim.Adam(d_model.parameters())
        return g_optimizer, d_optimizer

    def train(g_model, d_model, criterion, g_optimizer, d_optimizer):
        for lr, gt in loader:
            for p in d_model.parameters():
                p.requires_grad = False
            g_model.zero_grad()
            sr = g_model(lr)
            criterion(d_model(sr), 1).backward()
            g_optimizer.step()
            for p in d_model.parameters():
                p.requires_grad = True
            d_model.zero_grad()
            criterion(d_model(gt), 1).backward(){never}
            d_optimizer.step(){again}

    g_model, d_model = build_model(config)
    g_optimizer, d_optimizer = define_optimizer(g_model, d_model)
    if config.pretrained:
        d_model = load_weights(d_model, config.pretrained)
    train(g_model, d_model, torch.nn.BCEWithLogitsLoss(), g_optimizer, {second})
"""
twins(
    "a network that comes back from a loader of weights",
    REBOUND.format(never="  # <- GK107", again="  # <- GK101", second="g_optimizer"),
    REBOUND.format(never="", again="", second="d_optimizer"),
)

BUILT = """
    import torch
    from torch.cuda.amp import GradScaler, autocast
    from training import HpmStruct, build_optimizer, networks

    class Trainer:
        def train(self, params, loader):
            self.params = HpmStruct(**params)
            self.params.override()
            self.net = networks.get(self.params.net)
            self.optimizer = build_optimizer(net=self.net, params=self.params)
            self.scaler = GradScaler()
            for epoch in range(self.params.max_epochs):
                for i, (inputs, targets) in enumerate(loader):
                    with autocast():
                        loss = self.criterion(self.net(inputs), targets)
                    self.backward_step(loss)

        def backward_step(self, loss):
            self.scaler.scale(loss).backward()
            {unscaled}
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.params.clip){mark}
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
"""
twins(
    "an optimizer that is built out of sight from a network and options",
    BUILT.format(unscaled="pass", mark="  # <- GK301"),
    BUILT.format(unscaled="self.scaler.unscale_(self.optimizer)", mark=""),
)

DIVIDED_TWICE = """
    from accelerate import Accelerator
    from texts import Model, make_optimizer, make_loader, config

    accelerator = Accelerator(gradient_accumulation_steps=config.gradient_accumulation_steps)
    model = Model()
    optimizer = make_optimizer(model)
    model, optimizer, loader = accelerator.prepare(model, optimizer, make_loader())
    for epoch in range(config.epochs):
        for step, batch in enumerate(loader, start={start}):
            loss = model(batch).loss{by_hand}
            accelerator.backward(loss){twice}
            if (step + 1) % accelerator.gradient_accumulation_steps == 0:
                optimizer.step(){mark}
                optimizer.zero_grad()
        optimizer.zero_grad()
"""
BY_HAND = " / accelerator.gradient_accumulation_steps"
twins(
    "a short first window of losses that are divided twice",
    DIVIDED_TWICE.format(start=1, by_hand=BY_HAND, mark="  # <- GK202", twice=""),
    DIVIDED_TWICE.format(start=0, by_hand="", mark="", twice=""),
)
twins(
    "windows of losses that are divided twice",
    DIVIDED_TWICE.format(start=0, by_hand=BY_HAND, mark="", twice="  # <- GK207"),
    DIVIDED_TWICE.format(start=0, by_hand="", mark="", twice=""),
)


HANDED_ON = """
    import torch
    from texts import Model, loader

    def flat(items, name=""):
        for key, value in items:
            if isinstance(value, dict):
                yield from flat(value.items(), key)
            else:
                yield key, value

    def batches(count):
        for i in range(count):
            yield i

    def twice(count):
        yield from batches(count)
        yield from batches(count)

    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    for key, value in flat({{"a": 1, "b": {{"c": 2}}}}.items()):
        print(key, value)
    for i in twice(3):
        {cleared}
        model(loader[i]).mean().backward()
        optimizer.step(){mark}
"""
twins(
    "generators that hand on what others yield",
    HANDED_ON.format(cleared="pass", mark="  # <- GK101"),
    HANDED_ON.format(cleared="optimizer.zero_grad()", mark=""),
)


OPTIONS = """
    import torch
    from torch.cuda.amp import GradScaler
    from images import Model, options, select_device, loader

    device = select_device(options.device)
    if options.local_rank != -1:
        device = torch.device("cuda", options.local_rank)
    model = Model(options)
    if options.a: model.a.requires_grad_(False)
    if options.b: model.b.requires_grad_(False)
    if options.c: model.c.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cuda = device.type != "cpu"
    scaler = GradScaler(enabled=cuda)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch)
        scaler.scale(loss).backward()
        scaler.step(optimizer){mark}
        {updated}
"""
twins(
    "a scaler that one option among many switches on",
    OPTIONS.format(mark="  # <- GK303", updated="pass"),
    OPTIONS.format(mark="", updated="scaler.update()"),
)


def test_the_option_that_a_finding_depends_on_is_told() -> None:
    source = FAULTY["a scaler that one option among many switches on"]

    found = rehearse_files({"train.py": ast.parse(source)}, tuple(ALL))["train.py"].findings

    told_when = [one.when for one in found if one.rule == "GK303"]
    assert len(told_when) == 1
    assert str(told_when[0]).endswith(".type != 'cpu'")


def test_an_option_that_is_shown_to_change_nothing_is_not_told() -> None:
    names = "abcdefghijklmnopqrst"
    options = "\n".join(f"if args.{name}: optimizer.zero_grad()" for name in names)
    source = f"""
import torch
from options import args, data

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{options}
keep = args.keep
for x, y in torch.utils.data.DataLoader(data):
    if keep:
        print(x)
    else:
        optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    optimizer.step()
"""

    found = rehearse_files({"train.py": ast.parse(source)}, tuple(ALL))["train.py"].findings

    assert [one.when for one in found if one.rule == "GK101"] == ["args.keep is true"]


IN_A_BRANCH = """
    import argparse

    import torch
    from attacks import data

    parser = argparse.ArgumentParser()
    args = parser.parse_args()
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.train:
        for x, y in torch.utils.data.DataLoader(data):
            noise = torch.zeros_like(x)
            if args.attack == "pgd":
                for _ in range(args.rounds):
                    noise.requires_grad = True
                    (model(x + noise) - y).square().mean().backward()
                    noise.data = noise.data + 0.1 * noise.grad.sign(){inner}
                    {noise}
            optimizer.zero_grad()
            {model}
            (model(x + noise.detach()) - y).square().mean().backward()
            optimizer.step(){outer}
"""
AGAIN = "(model(x) - y).square().mean().backward(); optimizer.step()"
twins(
    "an attack that is one of several, whose gradients pile up",
    IN_A_BRANCH.format(noise="pass", model="pass", inner="  # <- GK101", outer=""),
    IN_A_BRANCH.format(noise="noise.grad.zero_()", model="pass", inner="", outer=""),
)
twins(
    "a step that every setting comes to, in a program that is told to train",
    IN_A_BRANCH.format(noise="noise.grad = None", model=AGAIN, inner="", outer="  # <- GK101"),
    IN_A_BRANCH.format(noise="noise.grad = None", model="pass", inner="", outer=""),
)


GENERATOR = """
    import torch

    class Trainer:
        def __init__(self, model, config):
            self.model, self.config = model, config

        def train(self, loader):
            yield "begins"
            yield from self.epochs(loader)

        def epochs(self, loader):
            optimizer = torch.optim.AdamW(self.model.parameters())
            waiting = 0
            for epoch in range(self.config.epochs):
                for x in loader:
                    (self.model(x).mean() / self.config.window).backward()
                    waiting += 1
                    if waiting >= self.config.window:
                        optimizer.step()
                        optimizer.zero_grad()
                        waiting = 0
                        yield epoch
                if waiting > 0:
                    optimizer.step()  # <- GK202
                    optimizer.zero_grad()
                    waiting = 0
"""
twins(
    "a generator that tells how training goes, and that nobody goes through",
    GENERATOR,
    GENERATOR.replace(
        "optimizer.step()  # <- GK202",
        "self.scale(self.config.window / waiting)\n                    optimizer.step()",
    )
    + """
        def scale(self, factor):
            for p in self.model.parameters():
                p.grad.mul_(factor)
""",
)
twins(
    "a generator that leaves a part of training to whoever goes through it",
    """
    import torch

    def losses(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            yield loss.item()
            loss.backward()
            optimizer.step()  # <- GK101
""",
    """
    import torch

    def losses(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            loss = model(x).mean()
            yield loss, optimizer
            loss.backward()
            optimizer.step()
""",
)


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("an attack that is one of several, whose gradients pile up", "args.attack == 'pgd'"),
        ("a step that every setting comes to, in a program that is told to train", None),
    ],
)
def test_the_branch_of_a_line_is_told_unless_all_training_lies_in_it(
    name: str, when: str | None
) -> None:
    found = rehearse_files({"train.py": ast.parse(FAULTY[name])}, tuple(ALL))["train.py"].findings

    assert [one.when for one in found if one.rule == "GK101"] == [when]


FINE_TUNED = """
    import torch
    from texts import Model, args, loss_of, make_loader

    model = Model(args)
    if args.n_gpu > 1:
        model = torch.nn.DataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(args.epochs):
        model.zero_grad()
        for step, batch in enumerate(make_loader(args)):
            inputs = {{"input_ids": batch[0]}}
            if args.kind != "distilled":
                inputs["types"] = batch[1] if args.kind in ["b", "x"] else None
            loss = {loss}
            if args.n_gpu > 1:
                loss = loss.mean()
            if args.gradient_accumulation_steps > 1:
                loss = loss / args.gradient_accumulation_steps
            loss.backward()
            if {count} % args.gradient_accumulation_steps == 0:
                optimizer.step(){mark}
                model.zero_grad()
"""
for name, loss in (("a network", "model(**inputs)[0]"), ("unseen code", "loss_of(inputs)")):
    twins(
        f"a loss of {name}, divided where windows are longer than one",
        FINE_TUNED.format(loss=loss, count="step", mark="  # <- GK202"),
        FINE_TUNED.format(loss=loss, count="(step + 1)", mark=""),
    )


SEVERAL_RUNS = """
    import torch
    from texts import Model, args, loss_of, make_loader

    def train(seed):
        model = Model(seed)
        optimizer = torch.optim.AdamW(model.parameters())
        for step, batch in enumerate(make_loader(args)):
            {every}
            loss = loss_of(batch) / args.accumulation
            loss.backward()
            if (step + 1) % args.accumulation == 0:
                optimizer.step()
                optimizer.zero_grad()

    for seed in [1, 2, 3]:
        train(seed)
"""
twins(
    "an optimizer that is built for each of several runs",
    SEVERAL_RUNS.format(every="optimizer.zero_grad()  # <- GK102"),
    SEVERAL_RUNS.format(every="pass"),
)
twins(
    "a loss of unknown origin for several optimizers of one line",
    SEVERAL_RUNS.format(every="optimizer.zero_grad()  # <- GK102"),
    """
    import torch
    from texts import loss_of, loader, networks

    optimizers = [torch.optim.Adam(one.parameters()) for one in networks]
    for batch in loader:
        loss_of(batch).backward()
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad()
    """,
)


LISTED = """
    import torch
    from texts import Model, loader, are_groups

    def create(params):
        params = {params}
        return torch.optim.Adam(params){mark}

    model = Model()
    params = model.parameters()
    {counted}
    optimizer = create(params)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""
EITHER = "params if are_groups(params) else list(params)"
twins(
    "an iterator that is read on one way and handed on on the other",
    LISTED.format(
        params=f"{EITHER}  # <- GK306",
        mark="  # <- GK306",
        counted="print(sum(p.numel() for p in params))",
    ),
    LISTED.format(params=EITHER, mark="", counted="print(params)"),
)


WANTED = """
    import torch
    from continual import Buffer, Model, loader

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    buffer = Buffer()
    for x, y in loader:
        optimizer.zero_grad()
        model(x, y).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        model(x, y).sum().backward()
        buffer.add({what})
        optimizer.zero_grad(){mark}
"""
twins(
    "gradients that are wanted for themselves, out of sight",
    WANTED.format(what="x", mark="  # <- GK102"),
    WANTED.format(what="model.get_grads().clone()", mark=""),
)


YIELDED = """
    import torch
    from torch import nn
    from images import loader, config

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
            self.head = nn.Conv2d(8, 2, 1)

        def forward(self, x):
            return self.head(self.backbone(x))

        def slow(self):
            for part in self.backbone.modules():
                if isinstance(part, nn.Conv2d):
                    for p in part.parameters():
                        if p.requires_grad:
                            yield p

        def fast(self):
            for p in self.head.parameters():
                yield p

    net = Net()
    groups = [{{"params": net.slow()}}, {{"params": net.fast(), "lr": config.lr}}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    for epoch in range(config.epochs):
        for x in loader:
            {cleared}
            net(x).mean().backward()
            optimizer.step(){mark}
        torch.save({{"net": net.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pt")
"""
twins(
    "parameters that a generator of the program yields",
    YIELDED.format(cleared="pass", mark="  # <- GK101"),
    YIELDED.format(cleared="optimizer.zero_grad()", mark=""),
)

TRAINED_ANEW = """
    import numpy as np
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, 10))

    def train(x, y, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        data = TensorDataset(torch.tensor(x.astype("float32")), torch.tensor(y.astype("long")))
        loader = DataLoader(data, batch_size=100, shuffle=True)
        model.apply(nn.init.kaiming_uniform_)
        for epoch in range(epochs):
            for xb, yb in loader:
                {cleared}
                nn.functional.cross_entropy(model(xb), yb).backward()
                optimizer.step(){mark}

    x, y = load()
    train(x, y, 60)
    train(np.copy(x), y, 60)
    train(x, np.copy(y), 60)
"""
twins(
    "three trainings of one network, each with an optimizer of its own",
    TRAINED_ANEW.format(cleared="pass", mark="  # <- GK101"),
    TRAINED_ANEW.format(cleared="optimizer.zero_grad()", mark=""),
)

WRAPS_ANOTHER = """
    from torch import optim

    class Preconditioned(optim.Optimizer):
        def __init__(self, model):
            super(Preconditioned, self).__init__(model.parameters(), dict())
            self.model = model
            self.optim = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(self):
            for p in self.model.parameters():
                p.grad.data.mul_(0.5)
            self.optim.step(){mark}

    class Agent:
        def __init__(self, actor_critic):
            self.actor_critic = actor_critic
            self.optimizer = Preconditioned(actor_critic)

        def update(self, rollouts):
            values, log_probs = self.actor_critic.evaluate_actions(rollouts.obs)
            {cleared}
            (values.pow(2).mean() - log_probs.mean()).backward()
            self.optimizer.step()
            return values.item()
"""
twins(
    "an optimizer of the program, built from a network, that lets another one step",
    WRAPS_ANOTHER.format(cleared="pass", mark="  # <- GK101"),
    WRAPS_ANOTHER.format(cleared="self.optimizer.zero_grad()", mark=""),
)

HANDED_IN = """
    import torch
    from torch import nn
    from torchvision import models

    net = models.resnet50()
    for p in net.parameters():
        p.requires_grad = False
    net.fc = nn.Linear(net.fc.in_features, 120)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam([{{"params": net.fc.parameters()}}], lr=0.001)

    def train(model, loader, epoch):
        for x, y in loader:
            {cleared}
            criterion(model(x), y).backward()
            optimizer.step(){mark}
"""
twins(
    "a network that is handed in may be the one that an optimizer owns",
    HANDED_IN.format(cleared="pass", mark="  # <- GK101"),
    HANDED_IN.format(cleared="optimizer.zero_grad()", mark=""),
)

FILLED_UNSEEN = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
    from files import fill

    class Shapes(Dataset):
        def __init__(self, folder):
            self.items = []
            fill(self.items.append, folder)

        def __len__(self):
            return len(self.items)

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loaders = {{"train": DataLoader(Shapes("train"), batch_size=16, drop_last=True)}}
    for epoch in range(9):
        for x in loaders["train"]:
            {cleared}
            model(x).mean().backward()
            optimizer.step(){mark}
"""
twins(
    "data that seems to be empty, because what fills it is not seen",
    FILLED_UNSEEN.format(cleared="pass", mark="  # <- GK101"),
    FILLED_UNSEEN.format(cleared="optimizer.zero_grad()", mark=""),
)

DIFFERENTIATED_TWICE = """
    import torch
    from torch import nn

    def meta_step(model, optimizer, loss_fn, tasks):
        losses = []
        for x, y in tasks:
            loss = loss_fn(model(x), y)
            loss.backward(retain_graph=True)
            losses.append({kept})
        optimizer.zero_grad(){mark}
        meta_loss = torch.stack(losses).mean()
        meta_loss.backward()
        optimizer.step()

    def fit(model, optimizer, loader):
        for tasks in loader:
            meta_step(model, optimizer, nn.CrossEntropyLoss(), tasks)
"""
twins(
    "a loss that is differentiated again after its gradients were cleared",
    DIFFERENTIATED_TWICE.format(kept="model(x).mean()", mark="  # <- GK102"),
    DIFFERENTIATED_TWICE.format(kept="loss", mark=""),
)

SOME_OF_A_LIST = """
    import copy
    import torch

    class Aggregation:
        def __init__(self, loss, loader, last):
            self.loss, self.loader, self.last = loss, loader, last

        def aggregate(self, received, local):
            network = copy.deepcopy(local)
            theirs = list(received.parameters())[-self.last:]
            mine = list(network.parameters())[-self.last:]
            optimizer = torch.optim.SGD(mine, lr=0)
            weights = [torch.ones_like(p.data) for p in mine]
            for x, y in self.loader:
                optimizer.zero_grad()
                self.loss(network(x), y).backward(){mark}
                for p, q, weight in zip(mine, theirs, weights):
                    weight.data = torch.clamp(weight - 0.1 * ({read} * (q - p)), 0, 1)
"""
twins(
    "gradients that are read from some parameters of a list",
    SOME_OF_A_LIST.format(read="p", mark="  # <- GK107"),
    SOME_OF_A_LIST.format(read="p.grad", mark=""),
)

MULTIPLIER = """
    import torch
    from torch import nn

    class Scalar(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.constant = nn.Parameter(torch.tensor(value))

        def forward(self):
            return self.constant

    class Agent:
        def __init__(self, critic, critic_optimizer):
            self.critic = critic
            self.critic_optimizer = critic_optimizer
            self.multiplier = Scalar(1.0)
            self.multiplier_optimizer = torch.optim.Adam(self.multiplier.parameters())

        def loss(self, x, y):
            q = self.critic(x)
            gap = torch.exp(self.multiplier()) * ((q - y).mean() - 1.0)
            self.multiplier_optimizer.zero_grad()
            (-gap).backward(retain_graph=True)
            {late}
            self.multiplier_optimizer.step()
            return (q - y).pow(2).mean() + gap

        def train(self, batch):
            loss = self.loss(*batch)
            self.critic_optimizer.zero_grad()
            loss.backward()
            self.critic_optimizer.step()
"""
twins(
    "a multiplier's loss that goes through a network which is handed in",
    MULTIPLIER.format(late="self.multiplier_optimizer.zero_grad()  # <- GK102"),
    MULTIPLIER.format(late="pass"),
)

GROUPS_BY_CHOICE = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    decay, rest = [], []
    for p in model.parameters():
        (decay if p.dim() >= 2 else rest).append(p)
    optimizer = torch.optim.AdamW([{{"params": decay}}, {{"params": rest, "weight_decay": 0.0}}])
    for x in loader:
        model(x).mean().backward()
        optimizer.step(){mark}
        {cleared}
"""
twins(
    "parameters that go to one of two lists by a choice",
    GROUPS_BY_CHOICE.format(cleared="pass", mark="  # <- GK101"),
    GROUPS_BY_CHOICE.format(cleared="optimizer.zero_grad()", mark=""),
)

KEPT_ELSEWHERE = """
    import torch
    from torch import nn
    from values import registry

    critic, multiplier = nn.Linear(3, 1), nn.Parameter(torch.zeros(1))
    registry.add("multiplier", multiplier)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    multiplier_optimizer = torch.optim.Adam([multiplier])
    for x, y in loader:
        q = critic(x)
        gap = {value} * (q - y).mean()
        multiplier_optimizer.zero_grad()
        (-gap).backward(retain_graph=True)
        multiplier_optimizer.step()
        critic_optimizer.zero_grad()
        (q - y).pow(2).mean().backward()
        {late}
        critic_optimizer.step()
"""
twins(
    "a loss that reaches its own parameter by way of code that is not seen",
    KEPT_ELSEWHERE.format(value="multiplier", late="critic_optimizer.zero_grad()  # <- GK102"),
    KEPT_ELSEWHERE.format(value='registry.get("multiplier")', late="pass"),
)

OWN_DISTRIBUTION = """
    import torch
    from torch import distributions, nn

    class Truncated(distributions.Normal):
        def __init__(self, loc, scale, low=-1.0, high=1.0):
            super().__init__(loc, scale, validate_args=False)
            self.low, self.high = low, high

        def sample(self, clip=None):
            eps = torch.randn_like(self.loc) * self.scale
            x = self.loc + eps
            return x - x.detach() + torch.clamp(x, self.low, self.high).detach()

    actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
    actor_opt = torch.optim.Adam(actor.parameters()){starved}
    critic_opt = torch.optim.Adam(critic.parameters())
    for obs, target in loader:
        mu = torch.tanh(actor(obs))
        action = Truncated(mu, torch.ones_like(mu) * 0.1).sample(clip=0.3){cut}
        actor_opt.zero_grad()
        (-critic(torch.cat([obs, action], -1)).mean()).backward()
        actor_opt.step(){mark}
        critic_opt.zero_grad(){cleared}
        q = critic(torch.cat([obs, action.detach()], -1))
        (q - target).pow(2).mean().backward()
        critic_opt.step()
"""
twins(
    "a distribution of the program whose own sample() keeps gradients",
    OWN_DISTRIBUTION.format(
        cut=".detach()", starved="  # <- GK106", mark="  # <- GK103", cleared="  # <- GK102"
    ),
    OWN_DISTRIBUTION.format(cut="", starved="", mark="", cleared=""),
)

NAMED_BACKWARD = """
    import torch
    from torch import nn

    class Edges(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.generator = nn.Linear(3, 3)
            self.optimizer = torch.optim.Adam(self.generator.parameters(), lr=config.lr)

        def process(self, images):
            {cleared}
            outputs = self.generator(images)
            return outputs, (outputs - images).pow(2).mean()

        def backward(self, loss=None):
            loss.backward()
            self.optimizer.step(){mark}

    class Trainer:
        def __init__(self, config):
            self.config = config
            self.model = Edges(config).to(config.device)

        def train(self):
            while True:
                for images in loader:
                    self.model.train()
                    outputs, loss = self.model.process(images)
                    self.model.backward(loss)
"""
twins(
    "a network's own method that is called backward",
    NAMED_BACKWARD.format(cleared="pass", mark="  # <- GK101"),
    NAMED_BACKWARD.format(cleared="self.optimizer.zero_grad()", mark=""),
)

PERTURBATION = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 2))
    head = nn.Parameter(torch.zeros(2))
    for x, y in loader:
        delta = nn.Parameter(torch.zeros_like(x))
        optimizer = torch.optim.Adam([{owned}], lr=0.01)
        for _ in range(100):
            optimizer.zero_grad()
            out = model(torch.tanh(delta + x)){scaled}
            (nn.functional.cross_entropy(out, y) + (delta ** 2).sum()).backward()
            optimizer.step(){mark}
"""
twins(
    "a perturbation that is optimized through a network which stays",
    PERTURBATION.format(owned="delta", scaled=" * head", mark="  # <- GK105"),
    PERTURBATION.format(owned="delta", scaled="", mark=""),
)

UNCLEAR_PART = """
    import torch
    from torch import nn
    from networks import build

    class Whole(nn.Module):
        def __init__(self, net, head):
            super().__init__()
            self.net, self.head = net, head

        def forward(self, x):
            return self.head(self.net(x)).mean()

    net, head = build("deep"), nn.Linear(3, 4)
    whole = Whole(net, head)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (net, head)]
    for x in loader:
        {zeroed}.zero_grad()
        whole(x).backward()
        for optimizer in optimizers:
            optimizer.step(){mark}
"""
twins(
    "a network that turns out to be a part of another one, which is zeroed as a whole",
    UNCLEAR_PART.format(zeroed="head", mark="  # <- GK101"),
    UNCLEAR_PART.format(zeroed="whole", mark=""),
)

EITHER_LAYER = """
    import torch
    from torch import nn
    from options import args

    class Net(nn.Module):
        def __init__(self, down):
            super().__init__()
            self.body = nn.Linear(3, 3)
            self.last = nn.Linear(3, 1) if down else nn.Linear(3, 2)

        def forward(self, x):
            return self.last(self.body(x)).mean()

    net = Net(args.down)
    optimizer = torch.optim.Adam(net.{owned}parameters())
    for x in loader:
        optimizer.zero_grad()
        net(x).backward()
        optimizer.step(){mark}
"""
twins(
    "a layer that is there under some setting only",
    EITHER_LAYER.format(owned="last.", mark="  # <- GK105"),
    EITHER_LAYER.format(owned="", mark=""),
)

PARTED_PROTOCOL = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(3, 1)
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def process(self, x):
            {zeroed}
            return self.net(x).mean()

        def finish(self, loss):
            loss.backward()
            self.optimizer.step(){mark}
"""
twins(
    "a method that zeroes beside the one that steps, both called by nobody in sight",
    PARTED_PROTOCOL.format(zeroed="pass", mark="  # <- GK101"),
    PARTED_PROTOCOL.format(zeroed="self.optimizer.zero_grad()", mark=""),
)

STRANGE_SCHEDULE = """
    import torch
    from torch import nn
    from schedules import warm_up

    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters())
    scheduler = {made}
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        scheduler.step(){mark}
        optimizer.step()
"""
twins(
    "a schedule of a class that is not seen, told to move on before each step",
    STRANGE_SCHEDULE.format(
        made="torch.optim.lr_scheduler.StepLR(optimizer, 10)", mark="  # <- GK205"
    ),
    STRANGE_SCHEDULE.format(made="warm_up(optimizer)", mark=""),
)

TRIED_AGAIN = """
    import torch
    from torch import nn

    net, optimizer = nn.Linear(3, 1), None
    optimizer = torch.optim.Adam(net.parameters())

    def episode(tasks, train):
        losses = []
        for x in tasks:
            loss = net(x).square().mean()
            loss.backward(retain_graph=True)
            losses.append(loss)
        optimizer.zero_grad(){mark}
        if train:
            {last}.backward()
            optimizer.step()

    for tasks in loader:
        episode(tasks, True)
    for tasks in others:
        episode(tasks, False)
"""
twins(
    "losses that go through backward again, and an evaluation that takes no step",
    TRIED_AGAIN.format(last="net(tasks[0]).mean()", mark="  # <- GK102"),
    TRIED_AGAIN.format(last="torch.stack(losses).mean()", mark=""),
)

TWO_OF_ONE_LINE = """
    import torch
    from torch import nn

    net, other = nn.Linear(3, 1), nn.Linear(3, 1)

    class Optim:
        def __init__(self, params):
            self.inner = torch.optim.Adam(params)

        def step(self):
            self.inner.step(){mark}

    first, second = Optim(list({owned}.parameters())), Optim(list({owned}.parameters()))
    for optimizer in (first, second):
        for x in loader:
            optimizer.inner.zero_grad()
            net(x).mean().backward()
            optimizer.step()
"""
twins(
    "two optimizers of one line over the same parameters, used one after the other",
    TWO_OF_ONE_LINE.format(owned="other", mark="  # <- GK103"),
    TWO_OF_ONE_LINE.format(owned="net", mark=""),
)

REBUILT_ONCE = """
    import torch
    from torch import nn
    from options import args

    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters())
    seen = len(loader) * args.start_epoch
    for epoch in range(args.start_epoch, args.epochs):
        for x in loader:
            optimizer.zero_grad()
            loss = net(x).mean()
            if {when}:
                optimizer = torch.optim.Adam(net.parameters()){mark}
            seen += 1
            loss.backward()
            optimizer.step()
"""
twins(
    "an optimizer that is built anew when a counter stands at its beginning",
    REBUILT_ONCE.format(when="seen >= 0", mark="  # <- GK604"),
    REBUILT_ONCE.format(when="seen == 0", mark=""),
)

LOST_PATH = """
    import torch
    from torch import nn
    from options import args

    encoder, decoder = nn.Linear(3, 3), nn.Linear(3, 1)
    encoding = torch.optim.Adam(encoder.parameters())
    decoding = torch.optim.Adam(decoder.parameters())

    def run(x):
        x = encoder(x)
        return decoder(x) if args.last else x

    for x in loader:
        decoding.zero_grad()
        run(x).mean().backward()
        {stepped}
        for one in (encoding, decoding):
            one.zero_grad(){mark}
        run(x).square().mean().backward()
        decoding.step()
        encoding.step()
"""
twins(
    "an optimizer that steps for a loss which is not seen to reach it under some setting",
    LOST_PATH.format(stepped="pass", mark="  # <- GK102"),
    LOST_PATH.format(stepped="decoding.step()", mark=""),
)

ONLY_STEPS = """
    import torch
    from torch import nn

    class Trainer:
        def __init__(self):
            self.net = nn.Linear(3, 1)
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def learn(self, loss):
            self.optimizer.zero_grad()
            loss.backward()

    class Clamping(Trainer):
        def _step(self):
            {lost}
            self.optimizer.step()
            for p in self.net.parameters():
                p.data.clamp_(-1, 1)
"""
twins(
    "a method that only steps, beside others that run backward",
    ONLY_STEPS.format(
        lost="""self.net(torch.rand(2, 3)).mean().backward()
            self.optimizer.zero_grad()  # <- GK102"""
    ),
    ONLY_STEPS.format(lost="pass"),
)

EVALUATED = """
    import torch
    from networks import build

    def run(loader, model, criterion, optimizer):
        for x, y in loader:
            loss = criterion(model(x), y)
            if model.training:
                loss.backward(){mark}

    def evaluate(loader, criterion):
        model = build()
        optimizer = torch.optim.Adam(model.parameters())
        model.{mode}()
        run(loader, model, criterion, optimizer)
"""
twins(
    "a network out of sight that is asked whether it trains",
    EVALUATED.format(mode="train", mark="  # <- GK107"),
    EVALUATED.format(mode="eval", mark=""),
)

BUFFERED = """
    import torch
    from torch import nn

    def pooled(buffer, one):
        buffer.append(one)
        return buffer

    def rows(size):
        buffer = []
        for batch in range(size):
            for row in range(64):
                place = 0
                while place < 2048:
                    while len(buffer) < 1000:
                        for one in range(size):
                            buffer = pooled(buffer, one)
                    buffer.pop()
                    place += 1
            yield torch.tensor(buffer)

    net = nn.Linear(2048, 1)
    optimizer = torch.optim.Adam(net.parameters())
    for x in rows(64):
        {cleared}
        net(x).mean().backward()
        optimizer.step(){mark}
"""
twins(
    "data out of a buffer that loops inside loops fill",
    BUFFERED.format(cleared="pass", mark="  # <- GK101"),
    BUFFERED.format(cleared="optimizer.zero_grad()", mark=""),
)

PHASES = """
    import torch
    from torch import nn
    from options import args

    encoder, decoder = nn.Linear(3, 3), nn.Linear(3, 3)
    encoding = torch.optim.Adam(encoder.parameters())
    decoding = torch.optim.Adam(decoder.parameters()){built}
    for epoch in range(args.epochs):
        for x in loader:
            if epoch < args.first:
                loss = encoder(x).mean()
            else:
                loss = {later}(encoder(x)).mean()
            decoding.zero_grad()
            encoding.zero_grad()
            loss.backward()
            encoding.step()
            decoding.step(){mark}
"""
twins(
    "a network that comes in with a later epoch",
    PHASES.format(later="torch.tanh", built="  # <- GK106", mark="  # <- GK103"),
    PHASES.format(later="decoder", built="", mark=""),
)

LATE_SCHEDULE = """
    import torch
    from factories import make_optimizer, make_net
    from torch.optim import lr_scheduler

    net = make_net()
    optimizers = {{"G": make_optimizer(net)}}
    schedule = lr_scheduler.CosineAnnealingLR(optimizers["G"], T_max=100)

    class Trainer:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def fit(self, epochs):
            for epoch in range(1, epochs + 1):
                if {when}:
                    schedule.step(){mark}
                for x in loader:
                    self.optimizer.zero_grad()
                    net(x).mean().backward()
                    self.optimizer.step()

    Trainer(optimizers["G"]).fit(200)
"""
twins(
    "a schedule that begins after a hundred epochs",
    LATE_SCHEDULE.format(when="epoch >= 1", mark="  # <- GK205"),
    LATE_SCHEDULE.format(when="epoch >= 100", mark=""),
)

HANDED_IN = """
    import torch
    from torch import nn

    class Pipeline:
        def __init__(self, model, gen_optimizer, disc_optimizer, criterion):
            self.model, self.criterion = model, criterion
            self.gen_optimizer, self.disc_optimizer = gen_optimizer, disc_optimizer
            {built}

        def run_epoch(self, loader):
            for x in loader:
                fake = self.model.generate(x)
                {disc_zeroed}
                self.criterion(self.model.discriminator(x)).backward()
                self.disc_optimizer.step(){mark}
                {gen_zeroed}
                self.criterion(self.model.discriminator(fake)).backward()
                self.gen_optimizer.step()
"""
twins(
    "optimizers that are handed in, beside networks that are zeroed by themselves",
    HANDED_IN.format(
        built="self.disc_optimizer = torch.optim.Adam(self.model.discriminator.parameters())",
        disc_zeroed="pass",
        mark="  # <- GK101",
        gen_zeroed="self.gen_optimizer.zero_grad()",
    ),
    HANDED_IN.format(
        built="pass",
        disc_zeroed="self.model.discriminator.zero_grad()",
        mark="",
        gen_zeroed="self.model.generator.zero_grad()",
    ),
)

OWN_LOSSES = """
    import torch

    class Gan:
        def __init__(self, model, gen_optimizer, disc_optimizer):
            self.model = model
            self.gen_optimizer, self.disc_optimizer = {optimizers}

        def run_epoch(self, loader):
            for x in loader:
                self.model.judge(self.model(x)).mean().backward()
                self.disc_optimizer.step()
                {zeroed}
                self.model.make(self.model(x)).mean().backward()
                self.gen_optimizer.step(){mark}
                self.gen_optimizer.zero_grad()
"""
twins(
    "optimizers that are handed in, of which nobody can tell whose losses reach what",
    OWN_LOSSES.format(
        optimizers="2 * [torch.optim.Adam(model.parameters())]",
        mark="  # <- GK101",
        zeroed="pass",
    ),
    OWN_LOSSES.format(
        optimizers="gen_optimizer, disc_optimizer",
        mark="",
        zeroed="self.disc_optimizer.zero_grad()",
    ),
)

SET_BY_NAME = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.layers = []
            for i, size in enumerate(sizes):
                layer = nn.Linear(size, size)
                {kept}
                self.layers.append(layer)
            self.last = nn.Linear(3, 1)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.last(x).mean()

    net = Net([3, 3])
    optimizer = torch.optim.Adam(net.parameters())
    for x in loader:
        optimizer.zero_grad()
        net(x).backward()
        optimizer.step(){mark}
"""
twins(
    "layers that are attributes by __setattr__, beside a plain list of them",
    SET_BY_NAME.format(kept="pass", mark="  # <- GK105"),
    SET_BY_NAME.format(kept='self.__setattr__("layer{}".format(i), layer)', mark=""),
)

AT_REST = """
    import torch
    from torch import nn

    net, judge = nn.Linear(3, 3), nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters())
    judge.{mode}()
    for x in loader:
        optimizer.zero_grad()
        judge(net(x)).mean().backward()
        optimizer.step(){mark}
"""
twins(
    "a network that judges another one, in eval()",
    AT_REST.format(mode="train", mark="  # <- GK105"),
    AT_REST.format(mode="eval", mark=""),
)

MOVED_INPUT = """
    import torch

    def invert(generator, image, device):
        z = torch.rand(3, 1).requires_grad_()
        optimizer = torch.optim.Adam([z], lr=0.1)
        z = z.to(device)
        for _ in range(500):
            {cleared}
            (image - generator(z)).abs().sum().backward()
            optimizer.step(){mark}
"""
twins(
    "a tensor that is moved to where it may be already",
    MOVED_INPUT.format(cleared="pass", mark="  # <- GK101"),
    MOVED_INPUT.format(
        cleared="""if z.grad is not None:
                z.grad.zero_()""",
        mark="",
    ),
)

OWN_SCHEDULE = """
    import torch
    from torch import nn

    class Warmup(torch.optim.lr_scheduler._LRScheduler):
        def __init__(self, optimizer, power=0.9, last_epoch=-1):
            self.power = power
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            return [rate * self.power for rate in self.base_lrs]

    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters())
    schedule = Warmup(optimizer)
    for x in loader:
        {before}
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
        {after}
"""
twins(
    "a schedule of the program itself, made of one of PyTorch's",
    OWN_SCHEDULE.format(before="schedule.step()  # <- GK205", after="pass"),
    OWN_SCHEDULE.format(before="pass", after="schedule.step()"),
)

JOINS_LATER = """
    import torch
    from torch import nn

    net, late = nn.Linear(3, 1), nn.Linear(3, 1)
    opt, opt_late = torch.optim.Adam(net.parameters()), torch.optim.Adam(late.parameters())
    sched = torch.optim.lr_scheduler.StepLR(opt, 10)
    sched_late = torch.optim.lr_scheduler.StepLR(opt_late, 10)
    for epoch in range(100):
        {early}
        for x, y in loader:
            opt.zero_grad()
            (net(x) - y).pow(2).mean().backward()
            opt.step()
            if epoch > 0:
                opt_late.zero_grad()
                (late(x) - y).pow(2).mean().backward()
                opt_late.step()
        sched_late.step()
"""
twins(
    "a network that joins the training later, with a schedule by epochs",
    JOINS_LATER.format(early="sched.step()  # <- GK205"),
    JOINS_LATER.format(early="pass"),
)

OWNED_INPUT = """
    import torch
    from torch import nn

    features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    image = torch.rand(1, 3, 8, 8, requires_grad=True)
    target = features(torch.rand(1, 3, 8, 8)).detach()
    optimizer = torch.optim.Adam([image], lr=0.05)
    for step in range(20):
        {cleared}
        (features(image) - target).square().mean().backward()
        optimizer.step(){mark}
"""
twins(
    "an image that an optimizer owns, and whose gradient nobody else reads",
    OWNED_INPUT.format(cleared="pass", mark="  # <- GK101"),
    OWNED_INPUT.format(cleared="optimizer.zero_grad()", mark=""),
)

ITERATORS_IN_A_LIST = """
    import torch


    class Learner:
        def __init__(self, agents, mixer):
            self.agents, self.mixer = agents, mixer
            self.params = {params}
            self.optimizer = torch.optim.RMSprop(self.params, lr=0.1)

        def train(self, batches):
            for batch in batches:
                self.optimizer.zero_grad()
                self.mixer(self.agents(batch)).mean().backward()
                torch.nn.utils.clip_grad_norm_(self.params, 10.0){mark}
                self.optimizer.step()
"""
twins(
    "a list that holds iterators, which PyTorch refuses at once",
    ITERATORS_IN_A_LIST.format(params="agents.parameters()", mark="  # <- GK306"),
    ITERATORS_IN_A_LIST.format(params="[agents.parameters(), mixer.parameters()]", mark=""),
)

STEP_BEHIND_THE_LOG = """
    import torch
    from texts import data

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    accumulation_steps = 1
    log_every = 50
    seen = 0
    for epoch in range(1000):
        for number, inputs in enumerate(torch.utils.data.DataLoader(data)):
            model(inputs).mean().backward(){mark}
            if (number + 1) % accumulation_steps == 0:
                seen += 1
                if seen % log_every == 0:
                    print(seen)
                    {step}
                    optimizer.zero_grad()
"""
twins(
    "a step that stands behind two counters, further on than any rehearsal goes",
    STEP_BEHIND_THE_LOG.format(step="pass", mark="  # <- GK107"),
    STEP_BEHIND_THE_LOG.format(step="optimizer.step()", mark=""),
)

ASKED_OF_ONE = """
    import torch
    from numbers_of_mine import data

    w = torch.zeros(3, 1, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    params = [w, b]
    for epoch in range(3):
        for x, y in torch.utils.data.DataLoader(data):
            loss = (x @ w + b - y).square().mean()
            if {asked}:
                for param in params:
                    param.grad.zero_(){mark}
            loss.backward()
            for param in params:
                param.data -= 0.1 * param.grad
"""
twins(
    "the gradient of one parameter is asked about, for all of them",
    ASKED_OF_ONE.format(asked="epoch >= 0", mark="  # <- GK601"),
    ASKED_OF_ONE.format(asked="params[0].grad is not None", mark=""),
)

CLEARED_IN_PLACE = """
    import torch


    class Kernel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(1, 2))
            self.bias = torch.nn.Parameter(torch.randn(1))

        def forward(self, x):
            return x @ self.weight.T + self.bias


    kernel = Kernel()
    x, y = torch.randn(8, 2), torch.randn(8, 1)
    for step in range(20):
        (kernel(x) - y).square().sum().backward()
        kernel.weight.data -= 0.01 * kernel.weight.grad{mark}
        kernel.bias.data -= 0.01 * kernel.bias.grad{mark}
        kernel.weight.grad{weight}
        kernel.bias.grad{bias}
"""
twins(
    "gradients that are filled with zeros, not zeroed",
    CLEARED_IN_PLACE.format(weight=".clamp_(0)", bias="[0] = 0", mark="  # <- GK101"),
    CLEARED_IN_PLACE.format(weight=".fill_(0)", bias="[:] = 0", mark=""),
)

CLIPS_EACH_TIME = """
    import torch
    from texts import args, batches

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(batches):
        loss = (model(x) - y).square().mean() / args.accumulation
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0){mark}
        if {counted} == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
twins(
    "a remainder that counts, beside one of a literal, on which nothing can be built",
    CLIPS_EACH_TIME.format(counted="(i + 1) % args.accumulation", mark="  # <- GK304"),
    CLIPS_EACH_TIME.format(counted="i + 1 % args.accumulation", mark=""),
)

ATTACK_ON_WEIGHTS = """
    import torch
    from texts import Tagger, batches


    class Attack:
        def __init__(self, model):
            self.model, self.kept = model, {{}}

        def attack(self):
            for name, param in self.model.named_parameters():
                if param.requires_grad and "embedding" in name:
                    self.kept[name] = param.data.clone()
                    norm = torch.norm(param.grad)
                    if norm != 0:
                        param.data.add_(param.grad / norm)

        def restore(self):
            for name, param in self.model.named_parameters():
                if name in self.kept:
                    param.data = self.kept[name]
            self.kept = {{}}


    def train(args):
        model = Tagger()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        attack = Attack(model)
        for number, (x, y) in enumerate(batches):
            loss = model(x, y) / args.accumulation
            loss.backward()
            if args.adversarial:
                attack.attack()
                (model(x, y) / args.accumulation).backward()
                attack.restore()
            if (number + 1) % args.accumulation == 0:
                optimizer.step(){mark}
                {cleared}
"""
twins(
    "an attack on weights that an optimizer owns, undone before it steps",
    ATTACK_ON_WEIGHTS.format(cleared="pass", mark="  # <- GK101"),
    ATTACK_ON_WEIGHTS.format(cleared="model.zero_grad()", mark=""),
)

CUT_AFTER_A_CHOICE = """
    import torch
    from einops import rearrange
    from games import data, score

    actor, critic = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    actor_opt = torch.optim.Adam(actor.parameters())
    critic_opt = torch.optim.Adam(critic.parameters())
    for x, r in torch.utils.data.DataLoader(data):
        rewards = r - actor(x).square().mean()
        values = critic(x)
        if values.ndim == 2:
            rewards = rearrange(rewards, "b -> b 1")
        (actor(x) * (rewards - values.detach())).mean().backward()
        actor_opt.step(){mark}
        actor_opt.zero_grad()
        {cut}
        score(values, rewards).mean().backward()
        critic_opt.step()
        critic_opt.zero_grad()
"""
twins(
    "a target that is cut off in place, of which nobody knows how it was shaped",
    CUT_AFTER_A_CHOICE.format(cut="pass", mark="  # <- GK104"),
    CUT_AFTER_A_CHOICE.format(cut="rewards.detach_()", mark=""),
)


EVALUATED = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter={most})
    for x in torch.randn(6, 8, 4):
        {outside}
        def closure():
            {inside}
            loss = model(x).square().mean()
            loss.backward()
            model(x).abs().mean().backward()
            return loss
        optimizer.step(closure){mark}
"""
twins(
    "a closure that is zeroed before the step and evaluated many times inside it",
    EVALUATED.format(most=20, outside="optimizer.zero_grad()", inside="pass", mark="  # <- GK101"),
    EVALUATED.format(most=20, outside="pass", inside="optimizer.zero_grad()", mark=""),
)
twins(
    "a closure that is zeroed nowhere, though a step evaluates it once",
    EVALUATED.format(most=1, outside="pass", inside="pass", mark="  # <- GK101"),
    EVALUATED.format(most=1, outside="optimizer.zero_grad()", inside="pass", mark=""),
)

twins(
    "an optimizer that steps while its own method runs backward",
    """
    import torch


    class Fused:
        def __init__(self, lr):
            self.model = torch.nn.Linear(3, 1)
            self.inner = torch.optim.SGD(self.model.parameters(), lr)

        def fused_backward(self, batches):
            for x in batches:
                self.inner.zero_grad()
                self.model(x).mean().backward()  # <- GK107
    """,
    """
    import torch


    class Fused(torch.optim.Optimizer):
        def __init__(self, lr):
            self.model = torch.nn.Linear(3, 1)
            super().__init__(self.model.parameters(), dict(lr=lr))
            for param in self.model.parameters():
                param.register_hook(self.make_update())

        def make_update(self):
            from updates import update

            return update

        def fused_backward(self, batches):
            for x in batches:
                self.zero_grad()
                self.model(x).mean().backward()
    """,
)

STALE_OUTPUTS = """
    import torch
    from moons import data

    judge = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(judge.parameters())
    for x in torch.utils.data.DataLoader(data):
        score = judge(torch.randn(5, 2))
        loss = (score - judge(x)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    judge2 = torch.nn.Linear(2, 1)
    optimizer2 = torch.optim.Adam(judge2.parameters()){starved}
    for x in torch.utils.data.DataLoader(data):
        # your code here
        {gap}
        loss = score.mean()
        optimizer2.zero_grad()
        loss.backward()
        optimizer2.step(){mark}
"""
twins(
    "an exercise that leaves out what makes its loss: as it is, backward() fails",
    STALE_OUTPUTS.format(gap="score = judge(x)", starved="  # <- GK106", mark="  # <- GK103"),
    STALE_OUTPUTS.format(gap="pass", starved="", mark=""),
)


PLAYED = """
    import gym
    import torch
    from torch import nn

    class Scaled(gym.ActionWrapper):
        def action(self, action):
            return action * 2

    class Learner(gym.Trainer):
        pass

    env = {env}
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    runner = {runner}
    state = env.reset()
    for _ in range(100):
        action = policy(torch.as_tensor(state))
        state, reward, done, info = runner.step(action.detach().numpy())
        loss = -(action * reward).mean()
        optimizer.zero_grad()
        loss.backward(){mark}
"""
twins(
    "an environment of the program's own, whose step cannot be the optimizer's",
    PLAYED.format(env="Scaled(gym.make('walker'))", runner="env", mark="  # <- GK107"),
    PLAYED.format(
        env="Scaled(gym.make('walker'))", runner="Learner(env, policy, optimizer)", mark=""
    ),
)
WIPED = """
    import torch
    from tqdm import tqdm
    from graphs import Net, loader

    def train(model, optimizer):
        for batch in tqdm(loader):
            {first}
            loss = model(batch.x).square().mean()
            loss.backward()
            {second}
            optimizer.step(){mark}

    model = Net()
    optimizer = torch.optim.Adam([{{"params": model.gnn.parameters()}}])
    train(model, optimizer)
"""
twins(
    "zeroed before each step, of a network that is not seen and owned in part",
    WIPED.format(first="pass", second="optimizer.zero_grad()", mark="  # <- GK103"),
    WIPED.format(first="optimizer.zero_grad()", second="pass", mark=""),
)

PUT_IN_PLACE = """
    import torch
    from meta import outer_gradients

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for gradients in outer_gradients:
        sum(p.square().sum() for p in model.parameters()).backward()  # makes room
        for p, gradient in zip(model.parameters(), gradients):
            p.grad.{put}(gradient)
        optimizer.step(){mark}
"""
twins(
    "gradients that are written over, beside such that are added to",
    PUT_IN_PLACE.format(put="add_", mark="  # <- GK101"),
    PUT_IN_PLACE.format(put="copy_", mark=""),
)

COUNTED_DOWN = """
    import torch


    class Trainer:
        def __init__(self, args):
            self.args = args

        def train(self, model, loader):
            optimizer = torch.optim.Adam(model.parameters())
            while True:
                left = self.args.window
                for x, y in loader:
                    if left == self.args.window:
                        {clear}
                    left -= 1
                    (model(x) - y).square().mean().div(self.args.window).backward()
                    if not left:
                        optimizer.step(){mark}
                        left = self.args.window
                if not left:
                    optimizer.step()
"""
twins(
    "a window that is counted down, and a rest that can only be there if it has no length",
    COUNTED_DOWN.format(clear="print(left)", mark="  # <- GK101"),
    COUNTED_DOWN.format(clear="optimizer.zero_grad()", mark=""),
)

CASCADE = """
    import torch
    from robust import args, loader

    models = [torch.nn.Linear(3, 1)]
    for number in range(args.cascade):
        if number > 0:
            models.append(torch.nn.Linear(3, 1))
        optimizer = torch.optim.Adam({which}.parameters())
        for epoch in range(args.epochs):
            for x, y in loader:
                optimizer.zero_grad()
                (models[0](x) - y).square().mean().backward()
                optimizer.step(){mark}
"""
twins(
    "an optimizer whose line works, as long as a cascade has one network",
    CASCADE.format(which="torch.nn.Linear(3, 1)", mark="  # <- GK103"),
    CASCADE.format(which="models[-1]", mark=""),
)


ZEROED_FOR_BOTH = """
    import torch
    from torch import nn

    disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.01)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.01)
    for x in torch.randn(6, 2, 3):
        opt_d.zero_grad(){mark}
        (disc(gen(x).detach()) - disc(x)).mean().backward()
        opt_d.step()
        {first}
        loss = -disc(gen(x)).mean()
        loss.backward()
        {second}
        opt_g.step()
"""
twins(
    "a loss of two networks that is zeroed in one and then in the other",
    ZEROED_FOR_BOTH.format(first="pass", second="opt_g.zero_grad()", mark="  # <- GK102"),
    ZEROED_FOR_BOTH.format(first="opt_g.zero_grad()", second="pass", mark=""),
)


IN_A_CLOSURE = """
    import torch
    from torch import nn

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(6, 8, 4):
        model(x).abs().mean().backward()
        {outside}
        def closure():
            {inside}
            loss = model(x).square().mean()
            loss.backward()
            return loss
        optimizer.step(closure)
"""
BY_HAND = "[p.grad.zero_() for p in model.parameters() if p.grad is not None]"
twins(
    "zeroed by hand before the step, and in its closure, where that may be meant",
    IN_A_CLOSURE.format(outside=f"{BY_HAND}  # <- GK102", inside="pass"),
    IN_A_CLOSURE.format(outside="pass", inside=BY_HAND),
)

SEVERAL_FROM_ELSEWHERE = """
    import torch
    from agents import Agent, batches

    class Trainer:
        def __init__(self, nets, optimizer_class):
            self.agent, self.critic = nets
            {context}
            self.critic_optimizer = optimizer_class(self.critic.parameters())

        def train(self, x, target):
            z = self.agent.encoder(x)
            {clear_context}
            self.agent.divergence().backward(retain_graph=True)
            self.critic_optimizer.zero_grad(){mark}
            (self.critic(x, z) - target).square().mean().backward()
            self.critic_optimizer.step()
            {step_context}
"""
twins(
    "a loss of which nobody can tell for whose optimizer it is, of several",
    """
    import torch
    from agents import Agent, batches

    class Trainer:
        def __init__(self, nets, optimizer_class):
            self.agent, self.critic = nets
            self.critic_optimizer = optimizer_class(self.critic.parameters())

        def train(self, x, target):
            self.critic_optimizer.zero_grad()
            self.critic(x).square().mean().backward()
            self.critic_optimizer.zero_grad()  # <- GK102
            (self.critic(x) - target).square().mean().backward()
            self.critic_optimizer.step()
    """,
    SEVERAL_FROM_ELSEWHERE.format(
        context="self.context_optimizer = optimizer_class(self.agent.encoder.parameters())",
        clear_context="self.context_optimizer.zero_grad()",
        step_context="self.context_optimizer.step()",
        mark="",
    ),
)

TWO_PHASES = """
    import torch
    from torch import nn

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.network, self.selector = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x):
            return self.selector(self.network(x))

    model = Both()
    first = torch.optim.Adam(model.network.parameters())
    for x in torch.randn(6, 8, 4):
        first.zero_grad()
        model(x).mean().backward()
        first.step(){mark}
    second = torch.optim.Adam(model.{part}.parameters())
    for x in torch.randn(6, 8, 4):
        second.zero_grad()
        model(x).mean().backward()
        second.step(){mark}
"""
twins(
    "a part that has a phase of its own, later",
    TWO_PHASES.format(part="network", mark="  # <- GK105"),
    TWO_PHASES.format(part="selector", mark=""),
)

ANOTHER_METHOD = """
    import torch

    class TwoFold(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {{}})
            self.kept = []

        @torch.no_grad()
        def keep(self):
            {keep}

        @torch.no_grad()
        def step(self):
            for p, kept in zip(self.param_groups[0]["params"], self.kept):
                p -= 0.1 * (p.grad + kept)

    model = torch.nn.Linear(4, 1)
    optimizer = TwoFold(model.parameters())
    for x in torch.randn(6, 8, 4):
        optimizer.zero_grad()
        model(x).abs().mean().backward()
        optimizer.keep()
        optimizer.zero_grad(){mark}
        model(x).square().mean().backward()
        optimizer.step()
"""
twins(
    "an optimizer of the program's own with another method that takes the gradients",
    ANOTHER_METHOD.format(keep="self.kept.clear()", mark="  # <- GK102"),
    ANOTHER_METHOD.format(
        keep='self.kept = [p.grad.clone() for p in self.param_groups[0]["params"]]', mark=""
    ),
)

DRAWN = """
    import torch
    from torch.optim.lr_scheduler import LambdaLR

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1)
    schedule = LambdaLR(optimizer, lambda step: 1 / (step + 1))
    rates = []
    for step in {rounds}:
        rates.append(optimizer.param_groups[0]["lr"])
        {forward}
        optimizer.step(){mark}
        {tick}
"""
twins(
    "steps that are taken to draw a schedule, and steps for which backward was forgotten",
    DRAWN.format(
        rounds="torch.randn(6, 8, 1)",
        forward="loss = model(step).mean()",
        mark="  # <- GK103",
        tick="pass",
    ),
    DRAWN.format(rounds="range(20000)", forward="pass", mark="", tick="schedule.step()"),
)
twins(
    "steps that are taken to draw a schedule, and a schedule beside a forgotten backward",
    DRAWN.format(
        rounds="torch.randn(6, 8, 1)",
        forward="loss = model(step).mean()",
        mark="  # <- GK103",
        tick="schedule.step()",
    ),
    DRAWN.format(rounds="range(100)", forward="pass", mark="", tick="schedule.step()"),
)

FROM_A_CALLER = """
    import torch
    from torch import nn

    class Agent:
        def __init__(self):
            self.actor, self.critic = nn.Linear(4, 2), nn.Linear(6, 1)
            self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
            self.critic_optimizer = torch.optim.Adam(self.critic.parameters())

        def learn(self, state, action, predicted, target):
            self.critic_optimizer.zero_grad(){cleared}
            (self.critic(torch.cat([state, action], 1)) - target).square().mean().backward()
            self.critic_optimizer.step()
            self.actor_optimizer.zero_grad()
            (-self.critic(torch.cat([state, predicted], 1))).mean().backward()
            self.actor_optimizer.step(){mark}
"""
twins(
    "an argument that the caller made with a network of the object",
    FROM_A_CALLER.format(mark="  # <- GK103", cleared="  # <- GK102").replace(
        "torch.optim.Adam(self.actor", "torch.optim.Adam(  # <- GK106\n                self.actor"
    )
    + """
    agent = Agent()
    for state, action, target in torch.load("play.pt"):
        agent.learn(state, action, agent.actor(state).detach(), target)
    """,
    FROM_A_CALLER.format(mark="", cleared=""),
)

MADE_OF_A_MASK = """
    import torch
    from tables import MaskedNet, settings

    class Fitting:
        def fit(self, loader):
            self.network = MaskedNet(4, mask=torch.eye(4).to(settings.device))
            self.optimizer = torch.optim.Adam(self.network.parameters())
            for x, y in loader:
                for p in self.{cleared}.parameters():
                    p.grad = None
                (self.network(x) - y).square().mean().backward()
                self.optimizer.step(){mark}
"""
twins(
    "a network that unseen code makes of a tensor",
    MADE_OF_A_MASK.format(cleared="teacher", mark="  # <- GK101"),
    MADE_OF_A_MASK.format(cleared="network", mark=""),
)

VARIABLES = """
    import torch
    from torch import nn
    from torch.autograd import Variable

    encoder, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.Adam(head.parameters())
    for x in torch.randn(6, 8, 4):
        optimizer.zero_grad()
        head({features}).mean().backward()
        optimizer.step(){mark}
"""
twins(
    "a variable is cut off from what its tensor was computed from",
    VARIABLES.format(features="encoder(Variable(x))", mark="  # <- GK105"),
    VARIABLES.format(features="Variable(encoder(x))", mark=""),
)

NAMED_TYPE = """
    import torch
    from agents import IQLLoss, CQLLoss

    def train(cfg, batches):
        losses = IQLLoss(cfg.model) if cfg.model.type == "iql" else CQLLoss(cfg.model)
        optimizer = torch.optim.Adam(losses.parameters())
        for batch in batches:
            loss = losses(batch)
            if cfg.model.type == "iql":
                {zero}
                loss.backward()
            if cfg.model.type == "iql":
                optimizer.step(){mark}
"""
twins(
    "a setting that is named as a method of networks is",
    NAMED_TYPE.format(zero="pass", mark="  # <- GK101"),
    NAMED_TYPE.format(zero="optimizer.zero_grad()", mark=""),
)

REBUILT = """
    import torch
    from torch.nn.functional import cross_entropy

    def train_epoch(model, loader):
        {once}
        batches = iter(loader)
        for i in range(1, len(loader)):
            {each}
            x, y = next(batches)
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()

    def main(loader):
        model = torch.nn.Linear(4, 2)
        for epoch in range(10):
            train_epoch(model, loader)
"""
BUILT = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"
twins(
    "an optimizer is built for each batch, or once for all but the first",
    REBUILT.format(once="pass", each=f"{BUILT}  # <- GK604"),
    REBUILT.format(once=BUILT, each="pass"),
)

BY_LANGUAGE = """
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--languages", nargs="+")
    args = parser.parse_args()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    if len(args.languages) > 1:
        optimizer = {{name: torch.optim.Adam(model.parameters()) for name in args.languages}}
    for x in torch.randn(10, 4, 4):
        model.zero_grad()
        model(x).mean().backward(){mark}
        {step}
"""
twins(
    "a dictionary under one setting, of which only an optimizer of another can be asked to step",
    BY_LANGUAGE.format(mark="  # <- GK107", step="pass"),
    BY_LANGUAGE.format(mark="", step="optimizer.step()"),
)

LEFTOVERS_OF_AN_UNSEEN_GENERATOR = """
    import torch
    from nets import Turbo_Net
    from judges import Discriminator
    from texts import options, batches

    args = options()
    net = Turbo_Net(rank=args.rank)
    judge = Discriminator(args.kind).cuda()
    judge.train()
    optimizer = torch.optim.Adam(list(net.unet.parameters()))
    optimizer_judge = torch.optim.Adam(judge.parameters())
    for x, y in batches():
        fake = net(x)
        judge(fake).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        judge(y).mean().backward()
        optimizer_judge.step()  # <- GK104
        optimizer_judge.zero_grad()
"""
twins(
    "an unseen generator's loss reaches the judge",
    LEFTOVERS_OF_AN_UNSEEN_GENERATOR,
    LEFTOVERS_OF_AN_UNSEEN_GENERATOR.replace(
        "        judge(y).mean()", "        optimizer_judge.zero_grad()\n        judge(y).mean()"
    ).replace("  # <- GK104", ""),
)

INTERRUPTED_AFTER_SET_UP = """
    import torch
    from nets import MaskedModel
    from texts import get_loader

    class Trainer:
        def __init__(self, config):
            self.config = config
            self.loader = get_loader(config)
            self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        def set_model(self):
            self.model = MaskedModel(self.config).to(self.device)
            self.model.train()
            self.optimizer = torch.optim.Adam(self.model.parameters())

        def exec(self):
            for step, batch in enumerate(self.loader):
                try:
                    loss, _ = self.model(batch)
                    loss.backward()
                    self.optimizer.step()  # <- GK605
                    self.optimizer.zero_grad()
                except RuntimeError:
                    print("out of memory at step", step)
                    torch.cuda.empty_cache()
"""
twins(
    "a batch is given up in a class that is set up elsewhere",
    INTERRUPTED_AFTER_SET_UP,
    INTERRUPTED_AFTER_SET_UP.replace(
        "torch.cuda.empty_cache()", "self.optimizer.zero_grad()"
    ).replace("  # <- GK605", ""),
)

INTERRUPTED_WITH_AN_UNSEEN_LOSS = """
    import torch
    from nets import MaskedModel, loss_of
    from texts import batches

    model = MaskedModel()
    optimizer = torch.optim.Adam(model.parameters())
    for batch in batches():
        try:
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()  # <- GK605
            optimizer.zero_grad()
        except RuntimeError:
            print("out of memory")
"""
twins(
    "a loss of unknown making is given up",
    INTERRUPTED_WITH_AN_UNSEEN_LOSS,
    INTERRUPTED_WITH_AN_UNSEEN_LOSS.replace(
        'print("out of memory")', "optimizer.zero_grad()"
    ).replace("  # <- GK605", ""),
)

INTERRUPTED_UNLESS_RAISED = """
    import torch
    from data import loader

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        try:
            model(batch).mean().backward()
        except StopIteration:
            break
        except RuntimeError as error:
            if "out of memory" in str(error):
                {cleared}
                continue
            raise
        optimizer.step(){mark}
        optimizer.zero_grad()
"""
twins(
    "a batch is given up for one error, and the others are raised",
    INTERRUPTED_UNLESS_RAISED.format(cleared="torch.cuda.empty_cache()", mark="  # <- GK605"),
    INTERRUPTED_UNLESS_RAISED.format(cleared="optimizer.zero_grad()", mark=""),
)
CORRECT["every error around backward is raised again"] = dedent(
    INTERRUPTED_UNLESS_RAISED.format(cleared="print(error)", mark="").replace("continue", "pass")
).lstrip()

OF_SEVERAL = """
    import torch
    from bundles import Bundle
    from torch.nn import Linear

    networks = Bundle(critic=Linear(4, 1), maker=Linear(4, 4))
    optimizers = {{name: torch.optim.Adam(networks[name].parameters()) for name in networks}}
    scaler = torch.amp.GradScaler()
    for x in torch.load("batches.pt"):
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        scaler.scale(networks.critic(networks.maker(x)).mean()).backward()
        scaler.step(optimizers["maker"])
        scaler.update()
        scaler.step(optimizers["{second}"]){mark}
        scaler.update()
"""
twins(
    "one of a collection of optimizers steps twice, or two of them once",
    OF_SEVERAL.format(second="maker", mark="  # <- GK101"),
    OF_SEVERAL.format(second="critic", mark=""),
)

SUMMED_UP = """
    import torch
    from criteria import all_criteria, criterion

    def train(model, source, cfg):
        optimizer = torch.optim.Adam(model.parameters())
        criteria = [built.loss for built in all_criteria(cfg)]
        while source.goes_on():
            batch = source.draw()
            optimizer.zero_grad()
            for {over}:
                loss = criterion(model({x}), {x})
                loss.mean().backward()
            optimizer.step(){mark}
"""
twins(
    "losses of several batches, or several losses of one",
    SUMMED_UP.format(over="part in batch", x="part", mark="  # <- GK201"),
    SUMMED_UP.format(over="i, criterion in enumerate(criteria)", x="batch", mark=""),
)

JUDGED = """
    import torch
    from torch import nn
    from torch.nn.functional import mse_loss

    painter, judge = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 8, 3)
    {loaded}.load_state_dict(torch.load("weights.pt"))
    optimizer = torch.optim.Adam(painter.parameters())
    for x, y in torch.load("batches.pt"):
        optimizer.zero_grad()
        mse_loss(judge(painter(x)), judge(y)).backward()
        optimizer.step(){mark}
"""
twins(
    "a second network is forgotten, or has weights of its own and judges the first",
    JUDGED.format(loaded="painter", mark="  # <- GK105"),
    JUDGED.format(loaded="judge", mark=""),
)

CYCLED = """
    import argparse
    from itertools import cycle
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=int)
    args = parser.parse_args()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    for x, number in zip(torch.load("batches.pt"), cycle({numbers})):
        if number == {first}:
            model.zero_grad()
        (model(x).mean() / args.window).backward()
        if number % args.window == 0:
            optimizer.step(){mark}
"""
twins(
    "gradients are cleared by a number that never comes, or as a cycle begins anew",
    CYCLED.format(numbers="(1, 2)", first="3", mark="  # <- GK101"),
    CYCLED.format(numbers="range(1, args.window + 1)", first="1", mark=""),
)

SO_MANY_STEPS = """
    import torch
    from settings import read

    def train(config, model, optimizer, loader):
        data = iter(loader)
        model.zero_grad()
        for step in range({rounds}):
            try:
                x = next(data)
            except StopIteration:
                data = iter(loader)
                x = next(data)
            loss = model(x).mean() / config.window
            loss.backward(){mark}
            if (step + 1) % config.window == 0:
                optimizer.step()
                model.zero_grad()

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    loader = torch.utils.data.DataLoader(torch.load("x.pt"))
    for epoch in range(10):
        train(read(epoch), model, optimizer, loader)
"""
twins(
    "so many rounds, which leave a window open, or so many whole windows",
    SO_MANY_STEPS.format(rounds="config.steps", mark="  # <- GK203"),
    SO_MANY_STEPS.format(rounds="config.steps * config.window", mark=""),
)

OF_EACH = """
    import torch

    class Network(torch.nn.Module):
        def __init__(self, names):
            super().__init__()
            self.trunk = torch.nn.Linear(8, 8)
            self.heads = torch.nn.ModuleDict({{name: torch.nn.Linear(8, 1) for name in names}})

        def forward(self, x, name):
            return self.heads[name](self.trunk(x))

    def train(loaders, steps, size):
        network = Network(list(loaders))
        optimizer = torch.optim.Adam(network.parameters())
        batches = {{name: iter(loader) for name, loader in loaders.items()}}
        for _ in range(steps):
            optimizer.zero_grad()
            for name in {names}:
                x, y = next(batches[{name}])
                loss = torch.nn.functional.mse_loss(network(x, {name}), y)
                loss.backward()
            optimizer.step(){mark}
"""
twins(
    "several batches of one loader, or one of each",
    OF_EACH.format(names="range(size)", name='"depth"', mark="  # <- GK201"),
    OF_EACH.format(names="loaders", name="name", mark=""),
)

PARTS = """
    import torch
    from pictures import args, loader, other

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x, crops), (z, _) in zip(loader, other):
        optimizer.zero_grad()
        for part in {parts}:
            loss = model({part}).square().mean()
            loss.backward()
        optimizer.step(){mark}
"""
for parts, part in (
    ("crops", "part"),
    ("(x, z)", "part"),
    ("range(args.samples)", "x + torch.randn_like(x)"),
):
    twins(
        f"micro-batches of a batch, or several losses of one: {parts}",
        PARTS.format(parts="x.chunk(4)", part="part", mark="  # <- GK201"),
        PARTS.format(parts=parts, part=part, mark=""),
    )

STATEFUL = """
    import torch

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x, state):
            out = self.layer(x if state is None else x + state)
            return out, out

    cell = Cell()
    optimizer = torch.optim.Adam(cell.parameters())
    for clip in torch.load("clips.pt"):
        state = None
        optimizer.zero_grad()
        for number, frame in enumerate(clip):
            out, {state} = cell(frame, state)
            loss = (out - frame).abs().mean()
            loss.backward()
            {detach}
            if (number + 1) % 8 == 0:
                optimizer.step(){mark}
                optimizer.zero_grad()
        optimizer.step()
"""
twins(
    "batches for a step, or time steps that go on from each other",
    STATEFUL.format(state="_", detach="pass", mark="  # <- GK201"),
    STATEFUL.format(state="state", detach="state = state.detach()", mark=""),
)

ATTACKED = """
    import copy

    import torch
    from zoo import Backbone, build

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Backbone("large")
            self.head = torch.nn.Linear(3, 4)

        def forward(self, x):
            return self.head(self.model.features(x))

    def attack(model, x):
        x = x.clone().requires_grad_()
        out = model(x)
        for _ in range(10):
            loss = torch.nn.MSELoss()(out, x)
            loss.backward()
            x = (x + x.grad.sign()).detach().requires_grad_()
            out = model(x)
        return x.detach()

    def train(loader):
        model = Network()
        optimizer = {optimizer}
        for x, y in loader:
            optimizer.zero_grad()
            attacked = attack({attacked}, x)
            loss = torch.nn.CrossEntropyLoss()(model(attacked), y)
            loss.backward()
            optimizer.step(){mark}
"""
for kind, optimizer in (
    ("its own", "torch.optim.SGD(model.parameters(), lr=0.1)"),
    ("an unseen", "build()"),
):
    twins(
        f"an attack on the network that {kind} optimizer steps, or on a copy of it",
        ATTACKED.format(optimizer=optimizer, attacked="model", mark="  # <- GK201"),
        ATTACKED.format(optimizer=optimizer, attacked="copy.deepcopy(model)", mark=""),
    )

MEMBERS = """
    import torch
    from tasks import Precision

    def train(task, loader):
        for x in loader:
            task.optimizer.zero_grad()
            loss = task.model(x).mean()
            if task.precision == Precision.APEX:
                loss.backward()
            elif task.precision == Precision.TORCH:
                {backward}
            else:
                loss.backward()
            if task.precision == Precision.TORCH:
                task.scaler.step(task.optimizer){mark}
                task.scaler.update()
            else:
                task.optimizer.step()
"""
twins(
    "a setting is one member of an enumeration, and no other",
    MEMBERS.format(backward="loss.backward()", mark="  # <- GK302"),
    MEMBERS.format(backward="task.scaler.scale(loss).backward()", mark=""),
)

COPIED = """
    from copy import deepcopy

    import torch
    from stacking import stacked
    from torch import nn

    class Many(nn.Module):
        def __init__(self, members):
            super().__init__()
            self.weights = stacked(*members)

        def forward(self, x):
            return self.weights(x)

    actor = nn.Linear(4, 4)
    critic = Many([nn.Linear(4, 1) for _ in range(3)])
    frozen = deepcopy(critic)
    critic_opt = torch.optim.Adam(critic.parameters())
    actor_opt = torch.optim.Adam(actor.parameters())
    for x in loader:
        critic(x).square().mean().backward()
        critic_opt.step(){mark}
        critic_opt.zero_grad()
        (-{judge}(actor(x)).mean()).backward()
        actor_opt.step()
        actor_opt.zero_grad()
"""
twins(
    "a copy of a network whose weights are held out of sight",
    COPIED.format(judge="critic", mark="  # <- GK104"),
    COPIED.format(judge="frozen", mark=""),
)

FINE = """
    import argparse

    import torch
    from torch import nn
    from transformers import get_linear_schedule_with_warmup

    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int)
    parser.add_argument("--window", type=int, default=1)
    args = parser.parse_args()
    net = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters())
    length = {length}
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * length), length)
    for number, x in enumerate(loader):
        (net(x).mean() / args.window).backward()
        if (number + 1) % args.window == 0:
            optimizer.step()
            optimizer.zero_grad()
        schedule.step(){mark}
"""
twins(
    "a schedule whose length is counted in micro-batches",
    FINE.format(length="args.updates", mark="  # <- GK205"),
    FINE.format(length="args.updates * args.window", mark=""),
)

TWO_TOO_EARLY = """
    import torch
    from torch import nn

    actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    first = torch.optim.Adam(actor.parameters())
    second = torch.optim.Adam(critic.parameters())
    for x in loader:
        first.zero_grad(){mark}
        {early_first}
        actor(x).square().mean().backward()
        {late_first}
        second.zero_grad(){mark}
        {early_second}
        critic(x).square().mean().backward()
        {late_second}
"""
twins(
    "two optimizers, each of which steps before its own backward",
    TWO_TOO_EARLY.format(
        early_first="first.step()",
        late_first="pass",
        early_second="second.step()",
        late_second="pass",
        mark="  # <- GK102",
    ),
    TWO_TOO_EARLY.format(
        early_first="pass",
        late_first="first.step()",
        early_second="pass",
        late_second="second.step()",
        mark="",
    ),
)

EXCHANGED = """
    from contextlib import nullcontext

    from builders import build_model, build_optimizer

    class Runner:
        def __init__(self, options):
            self.model = build_model(options)
            self.optimizer = build_optimizer(self.model, options)
            self.criterion = options.criterion

        def silence(self):
            return self.model.no_sync() if hasattr(self.model, "no_sync") else nullcontext()

        def train(self, loader):
            for x, y in loader:
                self.model.train()
                {first}
                with self.silence():
                    {then}
                    self.criterion(out, y).backward()
                self.optimizer.step(){mark}
                self.optimizer.zero_grad()
"""
twins(
    "no_sync() around the backward of a network that is not seen",
    EXCHANGED.format(first="pass", then="out = self.model(x)", mark="  # <- GK501"),
    EXCHANGED.format(first="out = self.model(x)", then="pass", mark=""),
)


GATHERED = """
    import torch

    def chunks(items, size):
        some = []
        for one in items:
            some.append(one)
            if len(some) == size:
                yield some
                some = []

    batches = [torch.randn(2, 3) for _ in range(9)]
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for chunk in chunks(batches, 3):
        optimizer.zero_grad()
        for x in chunk:
            loss = model(x).square().mean()
            {backward}
        optimizer.step(){mark}
"""
twins(
    "windows that a list fills until it is long enough",
    GATHERED.format(backward="loss.backward()", mark="  # <- GK201"),
    GATHERED.format(backward="(loss / 3).backward()", mark=""),
)

TICKED_INSIDE = """
    import torch

    batches = [torch.randn(2, 3) for _ in range({count})]
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    for start in range(0, len(batches), 2):
        optimizer.zero_grad()
        for x in batches[start:start + 2]:
            loss = model(x).square().mean(){divided}
            loss.backward()
            {inside}
        optimizer.step(){mark}
        {after}
"""
twins(
    "a schedule that moves on inside of a window is no step",
    TICKED_INSIDE.format(
        count=7,
        divided="",
        inside="scheduler.step()  # <- GK205",
        mark="  # <- GK201",
        after="pass",
    ),
    TICKED_INSIDE.format(count=8, divided=" / 2", inside="pass", mark="", after="scheduler.step()"),
)

HELD_STILL = """
    import torch
    from torch import nn

    batches = [torch.randn(2, 3) for _ in range(6)]
    disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
    for x in batches:
        {before}
        loss_g = -disc(gen(x)).mean()
        {after}
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        loss_d = disc(gen(x).detach()).tanh().mean() - disc(x).mean()
        loss_d.backward()
        opt_d.step(){mark}
        opt_d.zero_grad()
"""
twins(
    "a network that wants no gradient while a loss is computed from it gets none of that loss",
    HELD_STILL.format(before="pass", after="pass", mark="  # <- GK104"),
    HELD_STILL.format(
        before="disc.requires_grad_(False)", after="disc.requires_grad_(True)", mark=""
    ),
)

STILL_AT_BACKWARD = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.randn(2, 3) for _ in range(6)]:
        model.requires_grad_(True)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        model.requires_grad_({wants})
        loss.backward()
        optimizer.step(){mark}
"""
twins(
    "a network that wants no gradient when backward runs gets none either",
    STILL_AT_BACKWARD.format(wants=False, mark="  # <- GK103"),
    STILL_AT_BACKWARD.format(wants=True, mark=""),
)

NO_LOSS_FOR_ONE = """
    import torch
    from torch import nn

    batches = [torch.randn(2, 3) for _ in range(6)]
    disc, gen = nn.Linear(3, 1), nn.Linear(3, 3)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.1)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.1)
    for x in batches:
        {first}
        loss_d = disc(gen(x).detach()).tanh().mean() - disc(x).mean()
        loss_d.backward()
        {second}
        opt_d.step()
        opt_g.zero_grad()
        loss_g = -disc(gen(x)).mean()
        {backward}
        opt_g.step(){mark}
"""
twins(
    "one of two losses is not run backward, and what the other one made is cleared",
    NO_LOSS_FOR_ONE.format(
        first="pass",
        second="opt_d.zero_grad()  # <- GK102",
        backward="pass",
        mark="  # <- GK103",
    ),
    NO_LOSS_FOR_ONE.format(
        first="opt_d.zero_grad()", second="pass", backward="loss_g.backward()", mark=""
    ),
)

NEVER_DUE = """
    import torch

    def stream():
        for _ in range(6):
            yield torch.randn(2, 3)

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 0
    for x in stream():
        if count == 0:
            optimizer.zero_grad()
        (model(x).square().mean() / 3).backward(){mark}
        count += 1
        if count == 3:
            optimizer.step()
            {inside}
        {outside}
"""
twins(
    "a window that begins anew before it is full, in a loop that is seen to its end",
    NEVER_DUE.format(mark="  # <- GK107", inside="pass", outside="count = 0"),
    NEVER_DUE.format(mark="", inside="count = 0", outside="pass"),
)

KEPT_ELSEWHERE = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.randn(4, 3) for _ in range(6)]:
        first, second = {{}}, []
        for part in x.split(2):
            optimizer.zero_grad(){mark}
            model(part).square().mean().backward()
            for name, p in model.named_parameters():
                {keep}
        print(first, second)
        optimizer.step()
"""
twins(
    "gradients that a dict holds are not lost when they are cleared",
    KEPT_ELSEWHERE.format(mark="  # <- GK102", keep="first[name] = p.shape"),
    KEPT_ELSEWHERE.format(mark="", keep="first[name] = p.grad"),
)
twins(
    "gradients that a list holds are not lost when they are cleared",
    KEPT_ELSEWHERE.format(mark="  # <- GK102", keep="second.append(p.shape)"),
    KEPT_ELSEWHERE.format(mark="", keep="second.append(p.grad)"),
)

TIED = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict(dict(embed=nn.Embedding(9, 4), body=nn.Linear(4, 4)))
            self.head = nn.Linear(4, 9, bias=False)
            {tie}

        def forward(self, x):
            return self.head(self.parts.body(self.parts.embed(x)))

    model = Net()
    first = torch.optim.AdamW(model.head.parameters())
    second = torch.optim.SGD(model.parts.body.parameters(), lr=0.1)
    for x in [torch.randint(9, (3,)) for _ in range(6)]:
        loss = nn.functional.cross_entropy(model(x), x)
        loss.backward()
        for optimizer in [first, second]:
            optimizer.step(){mark}
        model.zero_grad()
"""
twins(
    "a weight that is tied to another one is owned by whoever owns that",
    TIED.format(tie="pass", mark="  # <- GK105"),
    TIED.format(tie="self.parts.embed.weight = self.head.weight", mark=""),
)

DEEP = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x):
            batch, width = x.size()
            hidden = torch.nn.functional.gelu(self.wide(x.view(batch, width)))
            for _ in range(12):
                hidden = (hidden + hidden.square().mean()).clamp(0, 1).view(batch, 2 * width)
            return x + self.narrow(hidden.contiguous().view(batch, 2 * width))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block() for _ in range(12)])

        def forward(self, x):
            for block in self.blocks{some}:
                x = block(x)
            return x

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        for _ in range(8):
            loss = model(torch.randn(2, 4)).square().mean()
            loss.backward()
        for p in model.parameters():
            p.grad /= 8{mark}
        optimizer.step()
        model.zero_grad()
"""
twins(
    "the last layers of a deep network have gradients, also after many passes",
    DEEP.format(some="[:1]", mark="  # <- GK601"),
    DEEP.format(some="", mark=""),
)

COUNTED_FROM_ONE = """
    import os
    import torch

    steps = 512 // (64 * int(os.environ["WORLD_SIZE"]))
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        for i in range(1, steps + 1):
            loss = model(torch.randn(2, 3)).square().mean()
            loss.backward()
        for p in model.parameters():
            p.grad /= steps
        optimizer.step(){mark}
        {zero}
"""
twins(
    "micro-batches that are counted from one",
    COUNTED_FROM_ONE.format(mark="  # <- GK101", zero="pass"),
    COUNTED_FROM_ONE.format(mark="", zero="model.zero_grad()"),
)

EVENTS_IN_A_DICT = """
    import torch

    class Hooks(dict):
        def on(self, name, action):
            self.setdefault(name, []).append(action)

        def fire(self, name):
            for action in self.get(name, []):
                action()

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hooks = Hooks()
    hooks.on("{registered}", lambda: optimizer.zero_grad())
    for x in torch.randn(10, 2, 3):
        hooks.fire("batch begins")
        model(x).square().mean().backward()
        optimizer.step(){mark}
"""
twins(
    "a registry that is a dict of its own",
    EVENTS_IN_A_DICT.format(registered="epoch begins", mark="  # <- GK101"),
    EVENTS_IN_A_DICT.format(registered="batch begins", mark=""),
)

STEPS_IN_A_LIST = """
    import torch

    class Steps(list):
        def __init__(self, *steps):
            super().__init__(steps)

        def run(self):
            for step in self:
                step()

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = Steps({steps})
    for x in torch.randn(10, 2, 3):
        model(x).square().mean().backward(){mark}
        steps.run()
"""
twins(
    "what a loop does, kept by a list of its own",
    STEPS_IN_A_LIST.format(steps="optimizer.zero_grad", mark="  # <- GK107"),
    STEPS_IN_A_LIST.format(steps="optimizer.step, optimizer.zero_grad", mark=""),
)

DEFAULTS = """
    import json
    import torch

    def train({options}):
        config = {{"skip": True, "clear": {clear}}}
        {overlay}
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in torch.randn(10, 2, 3):
            if config["skip"]:
                continue
            if config["clear"]:
                optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step(){mark}
"""
OVERLAYS = {
    "update": ("path", "config.update(json.load(open(path)))"),
    "another dict": ("path", "config = {**config, **json.load(open(path))}"),
    "keywords": ("**options", "config.update(options)"),
}
for way, (parameters, laid_over) in OVERLAYS.items():
    twins(
        f"defaults that something unknown is laid over: {way}",
        DEFAULTS.format(options=parameters, overlay=laid_over, clear="False", mark="  # <- GK101"),
        DEFAULTS.format(
            options=parameters,
            overlay=laid_over + '; config["clear"] = True',
            clear="False",
            mark="",
        ),
    )


GIVEN_UP = """
    import torch
    from speech import Model, loader

    class Skip(Exception):
        pass

    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    for batch in loader:
        try:
            if batch is None:
                raise Skip
            model(batch).backward()
            optimizer.step(){mark}
            optimizer.zero_grad()
        except {caught}:
            print("skipped")
"""
for caught, not_caught in {
    "RuntimeError": "Skip",
    "Exception": "KeyError",
    "(Skip, RuntimeError)": "(Skip, KeyError)",
    "KeyboardInterrupt": "StopIteration",
}.items():
    twins(
        f"an interrupted backward ends in {caught}, not in {not_caught}",
        GIVEN_UP.format(caught=caught, mark="  # <- GK605"),
        GIVEN_UP.format(caught=not_caught, mark=""),
    )


TWO_THAT_MAY_END = """
    import torch
    from nets import Judge, Net, loader

    net, judge = Net(), Judge()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
    count = 0
    for x in loader:
        optimizer.zero_grad(){mark}
        {first}
        {then}
        loss = judge(net(x).detach()).mean()
        of_judge.zero_grad()
        loss.backward()
        of_judge.step()
        count += 1
        if count >= args.most:
            break
"""
twins(
    "two optimizers that step once each are no second round",
    TWO_THAT_MAY_END.format(
        first="optimizer.step()", then="net(x).mean().backward()", mark="  # <- GK102"
    ),
    TWO_THAT_MAY_END.format(first="net(x).mean().backward()", then="optimizer.step()", mark=""),
)


SIDES = """
    import torch
    from nets import Net, loader

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, x in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), x, reduction="sum")
        try:
            loss.backward()
        except RuntimeError:
            optimizer.zero_grad()
            continue
        if (number + 1) % args.size == 0 or number + 1 == len(loader):
            if args.early:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            else:
                {first}
                {then}{mark}
            optimizer.zero_grad()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
twins(
    "the other side of a setting, after windows and faults that showed nothing",
    SIDES.format(first="optimizer.step()", then=CLIP, mark="  # <- GK304"),
    SIDES.format(first=CLIP, then="optimizer.step()", mark=""),
)


WARMED_UP = """
    class Trainer:
        def __init__(self, model, optimizer, schedule, warmup, warm):
            self.model, self.optimizer = model, optimizer
            self.schedule, self.warmup, self.warm = schedule, warmup, warm

        def _turn(self, x):
            self.optimizer.zero_grad(){lost}
            self.model(x).mean().backward(){mark}
            {step}

        def train(self, loader, start, epochs):
            for epoch in range(start, epochs):
                if not self.warm:
                    self.schedule.step()
                if self.warm:
                    self.{moves}.step()
                for x in loader:
                    self._turn(x)
                print(self.schedule.get_lr(), self.warmup.get_lr())
"""
twins(
    "behind a test, a schedule moves on",
    WARMED_UP.format(step="pass", moves="warmup", mark="  # <- GK107", lost=""),
    WARMED_UP.format(step="self.optimizer.step()", moves="warmup", mark="", lost=""),
)
twins(
    "behind a test, a schedule moves on, or an optimizer steps too late",
    WARMED_UP.format(step="pass", moves="optimizer", mark="", lost="  # <- GK102"),
    WARMED_UP.format(step="self.optimizer.step()", moves="schedule", mark="", lost=""),
)


METERED = """
    import torch
    from nets import Net, {imported}

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    meter = {made}
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward(){mark}
        meter.step()
"""
twins(
    "what was given no weights cannot step them",
    METERED.format(imported="Meter, loader", made="Meter()", mark="  # <- GK107"),
    METERED.format(imported="Meter, loader", made="Meter(optimizer)", mark=""),
)


VALIDATED = """
    import torch
    from nets import Task, held_out, loader

    task = Task()
    optimizer = torch.optim.SGD(task.parameters(), lr=0.1)
    for number, x in enumerate(loader):
        optimizer.zero_grad()
        task.train_step(x).loss.backward(){mark}
        if number % 100 == 0:
            {around}:
                for y in held_out:
                    print(task.valid_step(y))
"""
twins(
    "a network that is only looked at takes no step",
    VALIDATED.format(around="with torch.no_grad()", mark="  # <- GK107"),
    VALIDATED.format(around="if args.validate", mark=""),
)


MADE_OUT_OF_SIGHT = """
    from continual import Learner

    class Mine(Learner):
        def __init__(self, net{more}):
            super().__init__(net)
            self.optimizer = {made}

        def observe(self, x, y):
            loss = self.loss(self.net(x), y)
            {zero}
            loss.backward()
            self.optimizer.step(){mark}
            return loss.item()
"""
for handed, given in (("make()", "made"), ("self.make_optimizer()", "make.optimizer")):
    twins(
        f"an optimizer that an object had made for itself by {handed}",
        MADE_OUT_OF_SIGHT.format(more="", made=handed, zero="pass", mark="  # <- GK101"),
        MADE_OUT_OF_SIGHT.format(more="", made=handed, zero="self.optimizer.zero_grad()", mark=""),
    )
    twins(
        f"an optimizer that was made by {handed}, or handed in as {given}",
        MADE_OUT_OF_SIGHT.format(more="", made=handed, zero="pass", mark="  # <- GK101"),
        MADE_OUT_OF_SIGHT.format(
            more=f", {given.partition('.')[0]}", made=given, zero="pass", mark=""
        ),
    )


AGENT = """
    import torch
    from agents import Agent, Policy

    class Reinforce(Agent):
        def __init__(self, config):
            super().__init__(config)
            self.done = False
            self.policy = Policy(config.size)
            self.optimizer = torch.optim.Adam(self.policy.parameters())

        def step(self):
            while not self.done:
                self.state = self.next_state
                if self.time_to_learn():
                    self.learn()

        def time_to_learn(self):
            return self.done

        def learn(self):
            loss = self.loss_of(self.policy)
            self.optimizer.zero_grad(){mark}
            {first}
            {then}
"""
twins(
    "an optimizer's step is not the agent's",
    AGENT.format(first="self.optimizer.step()", then="loss.backward()", mark="  # <- GK102"),
    AGENT.format(first="loss.backward()", then="self.optimizer.step()", mark=""),
)


OWN_WRAPPER = """
    import torch
    from texts import loader

    class Noam:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        @property
        def param_groups(self):
            return {groups}

        def step(self):
            self.optimizer.step()

    model = torch.nn.Linear(3, 3)
    optimizer = Noam(torch.optim.Adam(model.parameters()))
    scaler = torch.amp.GradScaler()
    for x, y in loader:
        model.zero_grad()
        scaler.scale(torch.nn.functional.mse_loss(model(x), y)).backward()
        {first}
        {then}
        scaler.step(optimizer)
        scaler.update()
"""
UNSCALE = "scaler.unscale_(optimizer)"
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
for groups in ("self.optimizer.param_groups", "[*self.optimizer.param_groups]"):
    twins(
        f"a scaler is given the program's own wrapper, of {groups}",
        OWN_WRAPPER.format(groups=groups, first=CLIP + "  # <- GK301", then=UNSCALE),
        OWN_WRAPPER.format(groups=groups, first=UNSCALE, then=CLIP),
    )


BIAS = """
    import torch
    from torch import nn

    class Corrected({base}):
        def __init__(self, size):
            super().__init__()
            self.network = nn.Linear(3, size)
            self.bias = nn.Linear(1, 1)
            self.optimizer = torch.optim.Adam(self.bias.parameters())

        def fit(self, loader):
            for x, y in loader:
                loss = nn.functional.mse_loss(self.bias(self.network(x)), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step(){mark}
"""
twins(
    "a network that somebody else builds may be owned there",
    BIAS.format(base="object", mark="  # <- GK105"),
    BIAS.format(base="nn.Module", mark=""),
)


UNFINISHED = """
    import torch
    from torch import nn

    class Trained(nn.Module):
        def __init__(self, optimizer):
            super().__init__()
            self.optimizer = eval(f"torch.optim.{{optimizer}}(self.parameters())")

        def fit(self, loader):
            for x, y in loader:
                {clear}
                loss = self.loss_of(self(x), y)
                loss.backward()
                self.optimizer.step(){mark}
"""
twins(
    "a network whose layers are those of a class that is not seen clears them",
    UNFINISHED.format(clear="pass", mark="  # <- GK101"),
    UNFINISHED.format(clear="self.zero_grad()", mark=""),
)


PART_OF_AN_AGENT = """
    from agents import Agent, targets

    class Critic(Agent):
        def __init__(self, config, {handed}):
            self.config = config
            self.network = {made}

        def step(self, x):
            loss = (self.network(x) - targets(x)).pow(2).mean()
            {zero}
            loss.backward()
            self.network.optimizer.step(){mark}
"""
twins(
    "an optimizer of what an object had made for itself",
    PART_OF_AN_AGENT.format(
        handed="_", made="config.network_fn()", zero="pass", mark="  # <- GK101"
    ),
    PART_OF_AN_AGENT.format(
        handed="_", made="config.network_fn()", zero="self.network.zero_grad()", mark=""
    ),
)
twins(
    "an optimizer of what an object had made for itself, or was handed",
    PART_OF_AN_AGENT.format(
        handed="_", made="config.network_fn()", zero="pass", mark="  # <- GK101"
    ),
    PART_OF_AN_AGENT.format(handed="network", made="network", zero="pass", mark=""),
)


IN_ONE_BRANCH = """
    def train_one_epoch(model, loader, optimizer, scaler):
        for x in loader:
            optimizer.zero_grad()
            loss = model(x).mean()
            if scaler is not None:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            else:
                loss.backward(){mark}
                {step}
"""
twins(
    "without a scaler, nobody steps",
    IN_ONE_BRANCH.format(step="pass", mark="  # <- GK107"),
    IN_ONE_BRANCH.format(step="optimizer.step()", mark=""),
)
twins(
    "without a scaler, nobody steps, or the program does so after a trial",
    IN_ONE_BRANCH.format(step="pass", mark="  # <- GK107"),
    """
    def fits(model, loader, optimizer):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()

    def train_one_epoch(model, loader, optimizer):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    """,
)


CLIPPED_OUT_OF_SIGHT = """
    import torch
    from nets import Net, loader
    from utils import {helper}

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward(){mark}
        {helper}(model, 3.0)
"""
twins(
    "who clips gradients wants nothing of them, who measures them does",
    CLIPPED_OUT_OF_SIGHT.format(helper="clip_gradients", mark="  # <- GK107"),
    CLIPPED_OUT_OF_SIGHT.format(helper="sensitivity_by_gradients", mark=""),
)


PREFETCHED = """
    import torch
    from torch.distributed.fsdp import fully_shard
    from nets import Transformer, loader

    model = Transformer()
    for layer in model.layers:
        fully_shard(layer)
        layer.{ahead}(model.layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x).sum().backward()
        optimizer.step(){mark}
"""
twins(
    "what FSDP2 fetches ahead of a backward changes no gradient",
    PREFETCHED.format(ahead="set_modules_to_backward_prefetch", mark="  # <- GK101"),
    PREFETCHED.format(ahead="set_backward_to_zero_grad", mark=""),
)


SAVED_BY_A_HELPER = """
    import torch
    from nets import Net, loader
    from utils import {helper}

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x).mean().backward()
        optimizer.step(){mark}
        {helper}(optimizer, "last.pt")
"""
twins(
    "a helper out of sight that saves an optimizer does not zero it, another one may",
    SAVED_BY_A_HELPER.format(helper="save_checkpoint", mark="  # <- GK101"),
    SAVED_BY_A_HELPER.format(helper="finish_round", mark=""),
)
twins(
    "a helper out of sight is known by the words of its name, not by letters in them",
    SAVED_BY_A_HELPER.format(helper="logState", mark="  # <- GK101"),
    SAVED_BY_A_HELPER.format(helper="distribute_strategy", mark=""),
)


RATE_SET_BY_A_HELPER = """
    import torch
    from torch import nn
    from nets import loader
    from utils import {helper}

    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    for epoch in range(5):
        {helper}(optimizer, epoch)
        for x in loader:
            optimizer.zero_grad()
            head(body(x)).mean().backward()
            optimizer.step(){mark}
"""
twins(
    "a helper out of sight that sets an optimizer's rate adds nothing to it, another one may",
    RATE_SET_BY_A_HELPER.format(helper="adjust_learning_rate", mark="  # <- GK105"),
    RATE_SET_BY_A_HELPER.format(helper="begin_epoch", mark=""),
)


ONE_OF_TWO = """
    import torch
    from torch import nn
    from texts import loader, options

    model = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    activation = {{"relu": nn.ReLU(), "sigmoid": nn.Sigmoid()}}[options.activation]
    table = loader.table
    table.days = list(loader.days)
    hours = table.days.apply(lambda day: 24 * day)
    for x, y in loader:
        {zero}
        loss = nn.functional.mse_loss(activation(model(x)), y)
        if loss == 0:
            continue
        loss.backward()
        optimizer.step(){mark}
"""
twins(
    "layers without parameters, columns of a table and a loss of just 0 leave no doubt",
    ONE_OF_TWO.format(zero="pass", mark="  # <- GK101"),
    ONE_OF_TWO.format(zero="optimizer.zero_grad()", mark=""),
)


PADDED = """
    import torch
    from torch import nn
    from texts import loader

    class Padded(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.conv = nn.Conv2d(size, size, 3)
            self.stride = self.conv.stride
            if isinstance(self.stride, int):
                self.stride = [self.stride] * 2
            elif len(self.stride) == 1:
                self.stride = [self.stride[0]] * 2

        def forward(self, x):
            return self.conv(x)

    model = Padded(3)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        {zero}
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step(){mark}
"""
twins(
    "sizes of its layers are no parts of a network",
    PADDED.format(zero="pass", mark="  # <- GK101"),
    PADDED.format(zero="optimizer.zero_grad()", mark=""),
)


CHECKPOINTED = """
    import argparse
    from pathlib import Path

    import torch
    from torch import nn
    from texts import Encoder, Classifier, load, loader

    args = argparse.ArgumentParser().parse_args()
    encoder = Encoder()
    optimizer = torch.optim.Adam(encoder.parameters())
    out = Path(args.out)
    if args.out is None:
        out = Path.cwd() / "output"
    if (out / "encoder").exists():
        encoder.load_state_dict(load(args.out))
    else:
        for x, y in loader:
            {zero}
            nn.functional.mse_loss(encoder(x), y).backward()
            optimizer.step(){mark}
    if args.train == "yes":
        model = Classifier(encoder)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
"""
twins(
    "training that is left out where there is a file of it",
    CHECKPOINTED.format(zero="pass", mark="  # <- GK101"),
    CHECKPOINTED.format(zero="optimizer.zero_grad()", mark=""),
)


LEFT_EARLY = """
    import torch
    from torch import nn
    from texts import loaders, options

    def backbone(name):
        if name == "small":
            return nn.Linear(3, 3)
        if name == "large":
            return nn.Linear(3, 300)
        raise ValueError(name)

    class Averaging:
        def fit(self, loaders, names):
            models = [backbone(names[place].lower().strip()) for place in range(len(loaders))]
            for model, loader in zip(models, loaders):
                optimizer = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    {zero}
                    nn.functional.mse_loss(model(x), y).backward()
                    optimizer.step(){mark}

    for method in [Averaging()]:
        method.fit(loaders, options.names)
"""
twins(
    "a function that its callers leave before they come to its loop",
    LEFT_EARLY.format(zero="pass", mark="  # <- GK101"),
    LEFT_EARLY.format(zero="optimizer.zero_grad()", mark=""),
)

NAMELESS = """
    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {named}
    for epoch in range(2):
        for i, x in enumerate(torch.randn({batches}, 2, 4)):
            (model(x).square().mean() / 2).backward(){tail}
            if (i + 1) % 2 == 0:
                {call}
"""
MOVE = "lambda: (optimizer.step(), optimizer.zero_grad())"
for named, call in (
    (f"move = {MOVE}", "move()"),
    (f"moves = [lambda: print(epoch), {MOVE}]", "for move in moves: move()"),
):
    uneven = f"{named}  # <- GK202"
    twins(
        f"a step in a function without a name, called by {call}",
        NAMELESS.format(named=uneven, call=call, batches=5, tail="  # <- GK203"),
        NAMELESS.format(named=named, call=call, batches=6, tail=""),
    )


LEFT_OUT_FOR_ITS_NUMBERS = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 2
    for x in [torch.randn(2, 3) for _ in range(6)]:
        loss = model(x).square().mean() / 2
        if torch.isnan(loss):
            continue
        loss.backward(){mark}
        count -= 1
        if count == 0:
            optimizer.step()
            optimizer.zero_grad()
            {inside}
        {outside}
"""
twins(
    "a window that is never full, in a loop that leaves bad batches out",
    LEFT_OUT_FOR_ITS_NUMBERS.format(mark="  # <- GK107", inside="pass", outside="count = 2"),
    LEFT_OUT_FOR_ITS_NUMBERS.format(mark="", inside="count = 2", outside="pass"),
)

EXCHANGED = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[1] = nn.Linear(4, 1)
    for x in torch.randn(6, 2, 3):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(x).square().mean().backward()
        {first}
        {second}
        optimizer.zero_grad()
"""
CLIPPED_WHOLE = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
twins(
    "an optimizer that is built anew after a part of its model was exchanged",
    EXCHANGED.format(first="optimizer.step()", second=f"{CLIPPED_WHOLE}  # <- GK304"),
    EXCHANGED.format(first=CLIPPED_WHOLE, second="optimizer.step()"),
)


SHORT_FOR_A_BAD_BATCH = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = 0
    for x in [torch.randn(2, 3) for _ in range({batches})]:
        loss = model(x).square().mean() / 2
        if not torch.isfinite(loss):
            continue
        loss.backward()
        count += 1
        if count % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    if count % 2 != 0:
        optimizer.step(){mark}
"""
twins(
    "a last window that is short, and one that only a bad batch makes so",
    SHORT_FOR_A_BAD_BATCH.format(batches=5, mark="  # <- GK202"),
    SHORT_FOR_A_BAD_BATCH.format(batches=6, mark=""),
)


AROUND_TURNS = """
    import torch

    disc, gen = torch.nn.Linear(3, 1), torch.nn.Linear(3, 3)
    opt_d = torch.optim.SGD(disc.parameters(), lr=0.01)
    opt_g = torch.optim.SGD(gen.parameters(), lr=0.01){starves}
    for i, x in enumerate([torch.randn(2, 3) for _ in range(6)]):
        for turn in range(2):
            opt_d.zero_grad()
            (disc(gen(x).detach()).mean() - disc(x).mean()).backward()
            opt_d.step()
        if i >= 2:
            opt_g.zero_grad()
            loss = -disc(gen(x)).mean()
            {backward}
            opt_g.step(){mark}
"""
twins(
    "an optimizer that waits for a loss, around the turns of another one",
    AROUND_TURNS.format(backward="pass", mark="  # <- GK103", starves="  # <- GK106"),
    AROUND_TURNS.format(backward="loss.backward()", mark="", starves=""),
)


TRIED_TWICE = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in [torch.randn(2, 3) for _ in range(6)]:
        optimizer.zero_grad()
        model(x).abs().mean().backward(){mark}
        loss = model(x).square().mean()
        if not torch.isfinite(loss):
            continue
        {first}
        try:
            loss.backward(){mark}
        except RuntimeError:
            model.zero_grad()
            continue
        {last}
"""
twins(
    "a step that is never come to, and one that was not if no batch is ever good",
    TRIED_TWICE.format(first="pass", last="pass", mark="  # <- GK107"),
    TRIED_TWICE.format(first="loss.backward()", last="optimizer.step()", mark=""),
)


NOT_GONE_BACK_FROM = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)

    def loss_of(x):
        return model(x).square().mean()

    for x in [torch.randn(2, 3) for _ in range(6)]:
        optimizer.zero_grad()
        loss = loss_of(x)
        {backward}
        optimizer.step(){mark}
        scheduler.step()
"""
twins(
    "a loss that a function computes and nobody goes back from, beside a schedule",
    NOT_GONE_BACK_FROM.format(backward="pass", mark="  # <- GK103"),
    NOT_GONE_BACK_FROM.format(backward="loss.backward()", mark=""),
)


SCALED_TWICE = """
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for i, x in enumerate([torch.randn(2, 3) for _ in range(6)]):
        optimizer.zero_grad(){mark}
        loss = model(x).square().mean()
        try:
            scaler.scale(loss).backward({first})
            scaler.scale(loss).backward()
        except RuntimeError:
            model.zero_grad()
            continue
        if i % 2 == 1:
            scaler.step(optimizer)
            scaler.update()
"""
twins(
    "a loss that is scaled and sent back twice, where PyTorch's refusal is caught",
    SCALED_TWICE.format(first="retain_graph=True", mark="  # <- GK102"),
    SCALED_TWICE.format(first="", mark=""),
)


GIVEN_A_TABLE = """
    import torch
    from texts import batches
    from torch import nn

    LOSSES = {{}}

    def register(table, name):
        def keep(function):
            table[name] = function
            return function

        return keep

    @register(LOSSES, "pixels")
    def pixels():
        return nn.MSELoss(reduction="{reduction}")

    model = nn.Linear(4, 4)
    criterion = LOSSES["pixels"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i, (x, y) in enumerate(batches, 1):
        criterion(model(x), y).backward()
        if i % 4 == 0:
            optimizer.step(){mark}
            optimizer.zero_grad()
"""
twins(
    "a table that a function is given to fill",
    GIVEN_A_TABLE.format(reduction="mean", mark="  # <- GK201"),
    GIVEN_A_TABLE.format(reduction="sum", mark=""),
)


NAMED_PARTS = """
    import torch
    from texts import heads, network, sample
    from torch import nn

    SIZES = {{"colour": 3, "shape": 5}}
    optimizer = torch.optim.Adam([*network.parameters(), *heads.parameters()])
    for _ in range(100):
        optimizer.zero_grad()
        for {turn}:
            x, y = sample()
            loss = nn.functional.cross_entropy({scores}, y)
            loss.backward()
        optimizer.step(){mark}
"""
for way, turn, scores in (
    ("names", "task, size in SIZES.items()", "network(x, task)"),
    ("names in a row", "i, task in enumerate(SIZES)", "network(x, task)"),
    ("numbered heads", "i in range(4)", "heads[i](network(x))"),
):
    twins(
        f"a loop over {way} goes over the tasks of one batch",
        NAMED_PARTS.format(turn="i in range(4)", scores="network(x)", mark="  # <- GK201"),
        NAMED_PARTS.format(turn=turn, scores=scores, mark=""),
    )


NEVER_ASKED = """
    import torch
    from texts import batches
    from torch import nn

    encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (encoder, decoder)]
    for x in batches:
        {zero}
        nn.functional.mse_loss(decoder(encoder(x)), x).backward()
        for optimizer in optimizers:
            optimizer.step(){mark}
"""
for way, lazy in (
    ("map", "map(lambda optimizer: optimizer.zero_grad(), optimizers)"),
    ("generator", "(optimizer.zero_grad() for optimizer in optimizers)"),
):
    twins(
        f"a {way} that nobody goes through does nothing",
        NEVER_ASKED.format(zero=lazy, mark="  # <- GK101"),
        NEVER_ASKED.format(zero=f"list({lazy})", mark=""),
    )


READ_ELSEWHERE = """
    import torch
    from texts import Model, loader, register

    def count(params):
        {counted}

    model = Model()
    params = filter(lambda p: p.requires_grad, model.parameters())
    {use}
    optimizer = torch.optim.Adam([{{"params": params}}, {{"params": [], "lr": 0.1}}]){mark}
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""
for way, counted, use in (
    ("its sum", "return sum(p.numel() for p in params)", "total = count(params)"),
    ("its length", "return len(list(params))", 'print(f"{count(params)} trainable")'),
    ("a message", "pass", 'print("trainable", len(list(params)))'),
):
    twins(
        f"an iterator that a function reads and nobody needs: {way}",
        READ_ELSEWHERE.format(counted=counted, use=use, mark="  # <- GK306"),
        READ_ELSEWHERE.format(counted="return type(params)", use="print(count(params))", mark=""),
    )
twins(
    "an iterator that a function reads, or an unseen one is given",
    READ_ELSEWHERE.format(
        counted="yield from params", use="list(count(params))", mark="  # <- GK306"
    ),
    READ_ELSEWHERE.format(counted="yield from params", use="register(count(params))", mark=""),
)


THAWED_ONE_DAY = """
    import torch
    from texts import batches
    from torch import nn

    body, head = nn.Linear(3, 4), nn.Linear(4, 1)
    slow = torch.optim.Adam(body.parameters()){starved}
    fast = torch.optim.Adam(head.parameters())
    body.requires_grad_(False)
    for epoch in range({epochs}):
        if epoch == {day}:
            {thawed}.requires_grad_(True)
        for x in batches:
            slow.zero_grad()
            fast.zero_grad()
            head(body(x)).square().mean().backward()
            slow.step(){mark}
            fast.step()
"""
for epochs, day in ((6, 1), (6, 3), (60, 30)):
    when = {"epochs": epochs, "day": day}
    twins(
        f"what is frozen until round {day} of {epochs}",
        THAWED_ONE_DAY.format(thawed="head", starved="  # <- GK106", mark="  # <- GK103", **when),
        THAWED_ONE_DAY.format(thawed="body", starved="", mark="", **when),
    )


INITIALISED = """
    import torch
    from texts import batches, tune
    from torch import nn
    from torch.nn import functional as F

    class Margin(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(5, 8))
            {initialised}

        def forward(self, features, labels):
            return F.cross_entropy(F.linear(features, F.normalize(self.weight)), labels)

    backbone, margin = nn.Linear(8, 8), Margin()
    optimizer = torch.optim.SGD(backbone.parameters(), lr=0.1)
    for x, y in batches:
        loss = margin(backbone(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(){mark}
        {after}
"""
for way in ("nn.init.xavier_uniform_(self.weight)", "self.weight.data.normal_()"):
    twins(
        f"weights that are initialised by hand, and moved by it: {way}",
        INITIALISED.format(initialised=way, mark="  # <- GK105", after="pass"),
        INITIALISED.format(initialised=way, mark="", after="margin.weight.data.mul_(0.9)"),
    )
twins(
    "weights that are initialised by hand, and given to code that is not seen",
    INITIALISED.format(
        initialised="nn.init.zeros_(self.weight)", mark="  # <- GK105", after="pass"
    ),
    INITIALISED.format(initialised="nn.init.zeros_(self.weight)", mark="", after="tune(margin)"),
)


@pytest.mark.parametrize("way", OVERLAYS)
def test_a_default_that_may_be_written_over_is_a_setting(way: str) -> None:
    source = FAULTY[f"defaults that something unknown is laid over: {way}"]

    found = rehearse_files({"train.py": ast.parse(source)}, tuple(ALL))["train.py"].findings

    (stale,) = [finding for finding in found if finding.rule == "GK101"]
    assert str(stale.when).endswith("['clear'] is false")


@pytest.mark.parametrize("name", FAULTY)
def test_the_faulty_twin_is_told(name: str) -> None:
    assert marked(FAULTY[name])
    assert told(FAULTY[name]) == marked(FAULTY[name])


@pytest.mark.parametrize("name", CORRECT)
def test_the_correct_twin_stays_silent(name: str) -> None:
    assert told(CORRECT[name]) == set()
