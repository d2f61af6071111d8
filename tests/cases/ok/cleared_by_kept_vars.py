import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = model.state_dict(keep_vars=True)
for x in torch.randn(6, 8, 4):
    model(x).square().mean().backward()
    optimizer.step()
    for parameter in state.values():
        parameter.grad = None
