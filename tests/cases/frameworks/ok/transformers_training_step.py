"""transformers: a Trainer whose step of training is the user's own."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Plain(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        loss = model(**inputs).loss / self.current_gradient_accumulation_steps
        loss.backward()
        return loss.detach()

config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=16)
model = BertForSequenceClassification(config)
rows = [{"input_ids": torch.randint(1, 50, (8,)).tolist(), "attention_mask": [1] * 8, "labels": i % 2} for i in range(88)]
arguments = TrainingArguments(output_dir="out", num_train_epochs=2, per_device_train_batch_size=8, gradient_accumulation_steps=4, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True)
Plain(model=model, args=arguments, train_dataset=rows).train()
