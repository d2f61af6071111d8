"""transformers: a Trainer with a loss of the user's own."""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Weighted(Trainer):
    loss_is_scaled_for_ga = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = nn.functional.cross_entropy(outputs.logits, labels, weight=torch.tensor([1.0, 2.0]))
        return (loss, outputs) if return_outputs else loss

config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=16)
model = BertForSequenceClassification(config)
rows = [{"input_ids": torch.randint(1, 50, (8,)).tolist(), "attention_mask": [1] * 8, "labels": i % 2} for i in range(64)]
arguments = TrainingArguments(output_dir="out", num_train_epochs=2, per_device_train_batch_size=8, gradient_accumulation_steps=2, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True)
Weighted(model=model, args=arguments, train_dataset=rows).train()
