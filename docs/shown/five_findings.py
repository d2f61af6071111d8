import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
backbone = torch.optim.SGD(model[0].parameters(), lr=0.1)
head = torch.optim.SGD(model[2].parameters(), lr=0.1)
extra = torch.nn.Linear(8, 1)
side = torch.optim.Adam(extra.parameters())
batches = torch.randn(24, 8, 8)


def step_once(x):
    loss = model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model[0].parameters(), 1.0)
    backbone.step()
    return loss


for i, x in enumerate(batches):
    step_once(x)
    head.zero_grad()
    head.step()
    extra(x).mean().backward()
    if i % 4 == 3:
        side.step()
        torch.nn.utils.clip_grad_norm_(extra.parameters(), 1.0)
        side.zero_grad()
    if i == 17:
        torch.save({"side": side.state_dict(), "extra": extra.state_dict()}, "side.pt")
