"""MoCo: momentum encoder, queue, shuffled keys."""
import torch
import torch.nn.functional as F
from torch import nn


class MoCo(nn.Module):
    def __init__(self, base, dim=8, K=64, m=0.99, T=0.1):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q, self.encoder_k = base(dim), base(dim)
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.data.copy_(pq.data)
            pk.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self):
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            pk.data = pk.data * self.m + pq.data * (1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        ptr = int(self.ptr)
        self.queue[:, ptr : ptr + len(keys)] = keys.T
        self.ptr[0] = (ptr + len(keys)) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([pos, neg], dim=1) / self.T
        self._enqueue(k)
        return logits, torch.zeros(logits.shape[0], dtype=torch.long)


def base(dim):
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, dim))


torch.manual_seed(0)
model = MoCo(base)
optimizer = torch.optim.SGD(model.parameters(), 0.03, momentum=0.9, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss()
for epoch in range(2):
    for i in range(8):
        x = torch.randn(16, 10)
        output, target = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, f"{loss.item():.4f}")
