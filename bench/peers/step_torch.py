"""A training step of a random T5, BERT or GPT-2 in PyTorch: the peer of bench/step.lua.

Reads a line, makes a step, prints its seconds of CPU time. Eager, f32, one thread, fused AdamW.
"""
import os
import sys
import time

import torch
from transformers import (AutoConfig, BertConfig, BertForQuestionAnswering, GPT2Config,
                          GPT2LMHeadModel, T5Config, T5ForConditionalGeneration)

T5 = dict(vocab_size=32128, dropout_rate=0.1, feed_forward_proj="relu",
          decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)

# Configurations by the names that ftpipe has for them.
SIZES = {
    "t5-small": T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, **T5),
    "t5-base": T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, **T5),
    "bert-base": BertConfig(),
    "gpt2": GPT2Config(),
}


def t5(config, batch, source, target):
    ids = torch.randint(2, config.vocab_size, (batch, source))
    labels = torch.randint(2, config.vocab_size, (batch, target))
    return T5ForConditionalGeneration(config), dict(
        input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels)


def bert(config, batch, source, _):
    ids = torch.randint(2, config.vocab_size, (batch, source))
    spans = torch.arange(batch)
    return BertForQuestionAnswering(config), dict(
        input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids),
        start_positions=spans, end_positions=spans)


def gpt2(config, batch, source, _):
    ids = torch.randint(2, config.vocab_size, (batch, source))
    return GPT2LMHeadModel(config), dict(input_ids=ids, labels=ids)


FAMILIES = {"t5": t5, "bert": bert, "gpt2": gpt2}


def main():
    name, batch, source, target = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(name) if os.path.isdir(name) else SIZES[name]
    model, inputs = FAMILIES[config.model_type](config, batch, source, target)
    model.float().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for _ in sys.stdin:
        start = time.process_time()
        optimizer.zero_grad()
        model(**inputs).loss.backward()
        optimizer.step()
        print(time.process_time() - start, flush=True)


main()
