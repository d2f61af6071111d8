"""Lightning: windows of four by hand, clipped, with a scheduler per epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from lightning.pytorch import LightningModule, Trainer

class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        opt = self.optimizers()
        N = 4
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y) / N
        self.manual_backward(loss)
        if (batch_idx + 1) % N == 0:
            self.clip_gradients(opt, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
            opt.step()
            opt.zero_grad()
        sch = self.lr_schedulers()
        if self.trainer.is_last_batch and (self.trainer.current_epoch + 1) % N == 0:
            sch.step()

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=1e-2)
        return [opt], [torch.optim.lr_scheduler.StepLR(opt, 1)]

x = torch.randn(64, 4)
trainer = Trainer(max_epochs=4, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
trainer.fit(Net(), DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8))
