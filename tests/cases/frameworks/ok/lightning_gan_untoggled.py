"""Lightning: a GAN by hand, each optimizer zeroed before its own backward."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import pytorch_lightning as pl

class GAN(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.G = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
        self.D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))

    def training_step(self, batch, batch_idx):
        g_opt, d_opt = self.optimizers()
        X, = batch
        n = X.shape[0]
        real, fake = torch.ones(n, 1), torch.zeros(n, 1)
        bce = nn.functional.binary_cross_entropy_with_logits
        g_X = self.G(torch.randn(n, 8))
        errD = bce(self.D(X), real) + bce(self.D(g_X.detach()), fake)
        d_opt.zero_grad()
        self.manual_backward(errD)
        d_opt.step()
        errG = bce(self.D(g_X), real)
        g_opt.zero_grad()
        self.manual_backward(errG)
        g_opt.step()
        self.log_dict({"g": errG, "d": errD}, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.G.parameters(), lr=1e-5), torch.optim.Adam(self.D.parameters(), lr=1e-5)

trainer = pl.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
trainer.fit(GAN(), DataLoader(TensorDataset(torch.randn(64, 2)), batch_size=8))
