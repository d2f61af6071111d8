# Killed anywhere and started again, it prints the same weights.
import torch

from gradkeeper import Engine

torch.manual_seed(0)
data = [torch.randn(8, 4) for _ in range(20)]
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
engine = Engine(model, optimizer, clip_norm=1.0, checkpoint="runs/a", save_every=5)
engine.resume()  # after all that draws random numbers to begin with
for window in engine.windows(data, size=8, epochs=10):
    with window:
        for x in window:
            window.backward(model(x).square().mean(), weight=len(x))
print(engine.steps, model.weight.tolist())
