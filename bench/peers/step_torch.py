"""A training step of a random T5 in PyTorch: the peer of bench/step.lua.

Reads a line, makes a step, prints its seconds of CPU time. Eager, f32, one thread, fused AdamW.
"""
import sys
import time

import torch
from transformers import T5Config, T5ForConditionalGeneration

SIZES = {
    "t5-small": dict(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8),
    "t5-base": dict(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12),
}


def main():
    name, batch, source, target = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = T5Config(vocab_size=32128, dropout_rate=0.1, feed_forward_proj="relu",
                      decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **SIZES[name])
    model = T5ForConditionalGeneration(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(2, 32128, (batch, source))
    mask = torch.ones_like(ids)
    labels = torch.randint(2, 32128, (batch, target))
    for _ in sys.stdin:
        start = time.process_time()
        optimizer.zero_grad()
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
        print(time.process_time() - start, flush=True)


main()
