"""A training step of a random T5, BERT or GPT-2 in PyTorch: the peer of bench/step.lua and card.lua.

    step_torch.py MODEL BATCH SOURCE TARGET [cpu f32|bf16 | cuda f32|tf32|bf16]

Reads a line, makes a step, prints its seconds: of CPU time, eager, one thread; on a card of wall
time, from one idle moment of it to the next, and compiled when the line is "compile"; to the line
"ready" it answers 0 when it could make one, and to "warm" when it has compiled and holds weights
alone. Fused AdamW. What fails is one line: "absent: " and why.
"""
import os
import sys
import time

import torch
from transformers import (AutoConfig, BertForQuestionAnswering, GPT2LMHeadModel,
                          T5ForConditionalGeneration)

from sizes import SIZES


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


def on_card(step, precision, forget):
    """Seconds of a step on the card, all of whose work is done. `forget`: gradients."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    compiled = torch.compile(step)
    for line in sys.stdin:
        torch.cuda.synchronize()
        if line.strip() == "ready":
            print(0, flush=True)
            continue
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = step() if line.strip() == "eager" else compiled()
        loss.backward()
        if line.strip() == "warm":
            del loss
            forget()
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            print(0, flush=True)
            continue
        yield
        torch.cuda.synchronize()
        print(time.perf_counter() - start, flush=True)


def main():
    name, batch, source, target = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(name) if os.path.isdir(name) else SIZES[name]
    device, precision = sys.argv[5:7] if len(sys.argv) > 5 else ("cpu", "f32")
    with torch.device(device): # weights of a card are drawn there
        model, inputs = FAMILIES[config.model_type](config, batch, source, target)
    model.float().train()
    if device != "cpu":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        optimizer.zero_grad()
        for _ in on_card(lambda: model(**inputs).loss, precision,
                         optimizer.zero_grad):
            optimizer.step()
            optimizer.zero_grad()
        return
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for _ in sys.stdin:
        start = time.process_time()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        print(time.process_time() - start, flush=True)


try:
    main()
except Exception as error:
    print("absent: %s: %s" % (type(error).__name__, str(error).strip().split("\n")[0]), flush=True)
    sys.exit(1)
