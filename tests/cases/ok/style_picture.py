"""Style transfer in miniature: an image is optimised by LBFGS through fixed features."""
import torch
from torch import nn


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b * c, h * w)
    return f @ f.t() / f.numel()


torch.manual_seed(314)
features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).eval()
features.requires_grad_(False)
content, style = torch.rand(1, 3, 12, 12), torch.rand(1, 3, 12, 12)
content_target, style_target = features(content), gram(features(style))

image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image], max_iter=5)
run = [0]
while run[0] < 20:

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        f = features(image)
        loss = (f - content_target).pow(2).mean() + 1e3 * (gram(f) - style_target).pow(2).mean()
        loss.backward()
        run[0] += 1
        return loss

    loss = optimizer.step(closure)
print(f"calls {run[0]} loss {loss.item():.5f}")
