"""Lightning: saved, resumed, stopped early; and LBFGS, whose closure runs often."""

import tempfile
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

class Net(LightningModule):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        if self.kind == "lbfgs":
            return torch.optim.LBFGS(self.parameters(), lr=0.5)
        opt = torch.optim.SGD(self.parameters(), lr=1e-2, momentum=0.9)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau(opt), "monitor": "loss"}}

x = torch.randn(60, 4)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
common = dict(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
with tempfile.TemporaryDirectory() as folder:
    Trainer(max_epochs=2, callbacks=[ModelCheckpoint(folder, save_last=True), EarlyStopping("loss")], **common).fit(Net("sgd"), loader)
    Trainer(max_epochs=4, **common, callbacks=[ModelCheckpoint(folder + "/b")]).fit(Net("sgd"), loader, ckpt_path=folder + "/last.ckpt")
    Trainer(max_epochs=2, enable_checkpointing=False, **common).fit(Net("lbfgs"), loader)
