"""Fine-tuning script with `step % accum == 0 or last`, the index starting at zero."""
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(args):
    torch.manual_seed(args.seed)
    x = torch.randn(96, 7)
    y = (x[:, 2] * x[:, 5] > 0).long()
    train_dataloader = DataLoader(TensorDataset(x, y), batch_size=args.batch, shuffle=True)
    model = nn.Sequential(nn.Linear(7, 32), nn.GELU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    completed = 0
    for epoch in range(args.epochs):
        for step, batch in enumerate(train_dataloader):
            features, labels = batch
            loss = nn.functional.cross_entropy(model(features), labels)
            loss = loss / args.gradient_accumulation_steps
            loss.backward()
            if step % args.gradient_accumulation_steps == 0 or step == len(train_dataloader) - 1:
                optimizer.step()
                optimizer.zero_grad()
                completed += 1
    print(f"{completed} updates, loss {loss.item() * args.gradient_accumulation_steps:.4f}")


if __name__ == "__main__":
    main(SimpleNamespace(seed=74, batch=8, lr=5e-3, epochs=2, gradient_accumulation_steps=4))
