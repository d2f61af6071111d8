"""Sentence-pair classifier: accumulation, clipping, linear decay."""
import torch
from torch import nn


class Args:
    gradient_accumulation_steps = 4
    max_grad_norm = 0.1
    learning_rate = 5e-3
    num_batches = 24


def make_pair(n):
    a = torch.randn(n, 10)
    y = torch.randint(2, (n,))
    noise = torch.randn(n, 10)
    return torch.cat([a, torch.where(y[:, None] == 1, a + 0.1 * noise, noise)], 1), y


def train(args, model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    global_step, tr_loss = 0, 0.0
    model.zero_grad()
    for step in range(args.num_batches):
        x, y = make_pair(8)
        loss = nn.functional.cross_entropy(model(x), y)
        if args.gradient_accumulation_steps > 1:
            loss = loss / args.gradient_accumulation_steps
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        tr_loss += loss.item()
        if (step + 1) % args.gradient_accumulation_steps == 0:
            optimizer.step()
            model.zero_grad()
            global_step += 1
    return global_step, tr_loss / global_step


torch.manual_seed(103)
steps, mean_loss = train(Args, nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2)))
print(f"{steps} steps, loss {mean_loss:.4f}")
