"""transformers: a language model with masked labels, accumulated, clipped, saved, resumed."""

import tempfile
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))
rows = []
for i in range(60):
    n = 4 + i % 12
    ids = torch.randint(1, 50, (n,)).tolist()
    pad = 16 - n
    rows.append({"input_ids": ids + [0] * pad, "attention_mask": [1] * n + [0] * pad, "labels": ids + [-100] * pad})

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, num_train_epochs=3, per_device_train_batch_size=4, gradient_accumulation_steps=4,
        max_grad_norm=1.0, warmup_steps=2, lr_scheduler_type="cosine", use_cpu=True, report_to=[], save_strategy="steps", save_steps=3,
        logging_steps=2, eval_strategy="epoch", disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8])
    trainer.train()
    arguments.num_train_epochs = 5
    trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8])
    trainer.train(resume_from_checkpoint=True)
