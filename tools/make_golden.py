#!/usr/bin/env python3
"""Makes spec/golden: what PyTorch and transformers compute with the embedded models.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 sentencepiece
    /tmp/golden/bin/python tools/make_golden.py

Run in the root of the sources, on the CPU, with one thread. A directory spec/golden/NAME goes
with assets/NAME_tiny: golden.json and golden.safetensors as lua/ftpipe/data/golden.lua reads them; and
tokens.json, texts with their ids. "param.NAME" is a parameter that the embedded weights lack.
"""
import json
import os

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from transformers.optimization import Adafactor

torch.set_num_threads(1)
torch.manual_seed(1)

# T5 has nearly learnt its batch after five steps of AdamW; from there on rounding grows fast (f32
# is 3e-5 off f64 in the sixth loss, 1e-6 in the fifth).
STEPS = 5
OPTIMIZERS = {
    "adamw": {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
    "sgd": {"lr": 1e-2, "momentum": 0.9},
    "adafactor": {"lr": 1e-3, "eps": [1e-30, 1e-3], "clip_threshold": 1.0, "decay_rate": -0.8,
                  "scale_parameter": True, "relative_step": False},
}
# Gradients of tensors up to this size are stored, of all others the norms.
MOST_STORED = 512

TEXTS = [
    "Anna found a black ball in Cairo .",
    "rte hypothesis: Ben has a red kite. premise: The red kite belongs to Ben.",
    "Who bought the lemon? Clara did!",
    "", " ", "  two  spaces\tand a tab\nand lines\r\n", "UPPER lower MiXeD",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m", "e\u0301 is two characters, \u00e9 is one",
    "\u4e2d\u6587 and \u0440\u0443\u0441\u0441\u043a\u0438\u0439", "emoji \U0001f600 end",
    "don't we'll I'm they've he'd it's", "1234567890 3.14 1,000", "a-b_c/d\\e@f#g$h%i^j&k*l",
    "\u00a0no-break\u2003em\u3000wide\u200bzero", "\ufb01ne \u2460 \u00bd \u212b",
    "[MASK] <pad> </s>",
    "x" * 120, "ab" * 40 + " " + "cd" * 40, "\u0130stanbul \u00df \u03a3\u03c2",
]


def own_optimizer(name, parameters):
    s = OPTIMIZERS[name]
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=s["lr"], betas=s["betas"], eps=s["eps"],
                                 weight_decay=s["weight_decay"])
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=s["lr"], momentum=s["momentum"])
    return Adafactor(parameters, weight_decay=0.0, warmup_init=False, **s)


def losses_of(make_model, inputs, name):
    model, losses = make_model(), []
    optimizer = own_optimizer(name, model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return losses


def gradients(model, tensors, norms):
    total = 0.0
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        norm = parameter.grad.double().norm().item()
        total += norm ** 2
        norms[name] = norm
        if parameter.numel() <= MOST_STORED:
            tensors["grad." + name] = parameter.grad.contiguous()
    return total ** 0.5


def golden(family, make_model, inputs, extra, greedy=None):
    """Writes the outputs of a model; `extra` are tensors to store beside them."""
    where, tensors, norms = "spec/golden/" + family, dict(extra), {}
    os.makedirs(where, exist_ok=True)
    inputs = {name: torch.tensor(rows) for name, rows in inputs.items()}
    model = make_model()
    out = model(**inputs)
    out.loss.backward()
    root = {
        "made_by": "tools/make_golden.py", "family": family, "torch": torch.__version__,
        "transformers": transformers.__version__,
        "inputs": {name: rows.tolist() for name, rows in inputs.items()},
        "loss": out.loss.item(), "optimizers": OPTIMIZERS,
        "losses": {name: losses_of(make_model, inputs, name) for name in OPTIMIZERS},
    }
    root["grad_norm"] = gradients(model, tensors, norms)
    root["grad_norms"] = norms
    if family == "bert":
        tensors.update(start_logits=out.start_logits, end_logits=out.end_logits)
    else:
        root["logit_positions"] = [0, 3, out.logits.shape[1] - 1]
        tensors["logits"] = out.logits[:, root["logit_positions"]].contiguous()
    if greedy:
        root["greedy"] = greedy(make_model().eval(), inputs).tolist()
        root["greedy_args"] = {"max_new_tokens": 8}
    save_file({name: t.detach().float() for name, t in tensors.items()},
              where + "/golden.safetensors")
    os.chmod(where + "/golden.safetensors", 0o644)
    with open(where + "/golden.json", "w") as file:
        json.dump(root, file, separators=(",", ":"))
        file.write("\n")


def tokens(family, texts, encode, decode):
    rows = []
    for text in texts:
        ids = encode(text)
        rows.append({"text": text, "ids": ids, "decoded": decode(ids)})
    os.makedirs("spec/golden/" + family, exist_ok=True)
    with open("spec/golden/%s/tokens.json" % family, "w") as file:
        json.dump({"made_by": "tools/make_golden.py", "tokenizers": tokenizers.__version__,
                   "rows": rows}, file, indent=0, ensure_ascii=True)
        file.write("\n")


def padded(rows, value):
    longest = max(map(len, rows))
    return [row + [value] * (longest - len(row)) for row in rows]


def t5():
    import sentencepiece
    pieces = sentencepiece.SentencePieceProcessor(model_file="assets/t5_tiny/spiece.model")
    # transformers looks for special tokens before it calls SentencePiece: not compared here
    texts = [text for text in TEXTS if "[MASK]" not in text]
    tokens("t5", texts, lambda text: pieces.encode(text),
           # SentencePiece writes what it does not know (id 2) as a sign, transformers as <unk>
           lambda ids: None if 2 in ids else pieces.decode(ids))
    path = "assets/t5_tiny"

    def make():
        return transformers.T5ForConditionalGeneration.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager").train()

    sources = [pieces.encode(text) + [1] for text in TEXTS[:3]]
    targets = [pieces.encode(text) + [1] for text in ("entailment", "not_entailment", "True")]
    inputs = {
        "input_ids": padded(sources, 0),
        "attention_mask": padded([[1] * len(row) for row in sources], 0),
        "labels": padded(targets, -100),
    }
    golden("t5", make, inputs, {}, lambda model, given: model.generate(
        input_ids=given["input_ids"], attention_mask=given["attention_mask"], max_new_tokens=8,
        do_sample=False, num_beams=1))


def gpt2():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    path = "assets/gpt2_tiny"
    tokenizer = Tokenizer(models.BPE.from_file(path + "/vocab.json", path + "/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokens("gpt2", TEXTS, lambda text: tokenizer.encode(text).ids,
           lambda ids: tokenizer.decode(ids))

    def make():
        return transformers.GPT2LMHeadModel.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager").train()

    text = " ".join(TEXTS[:3])
    ids = tokenizer.encode(text).ids
    rows = [ids[0:20], ids[7:27], ids[11:31]]
    golden("gpt2", make, {"input_ids": rows, "labels": rows}, {},
           lambda model, given: model.generate(
               input_ids=given["input_ids"], attention_mask=torch.ones_like(given["input_ids"]),
               max_new_tokens=8, do_sample=False, num_beams=1, pad_token_id=0))


def bert():
    path = "assets/bert_tiny"
    tokenizer = tokenizers.BertWordPieceTokenizer(path + "/vocab.txt", lowercase=True)
    tokenizer._tokenizer.decoder = tokenizers.decoders.WordPiece(cleanup=False)
    tokens("bert", TEXTS, lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
           lambda ids: tokenizer.decode(ids, skip_special_tokens=False))
    head = {"qa_outputs.weight": torch.randn(2, 64) * 0.2, "qa_outputs.bias": torch.randn(2) * 0.2}

    def make():
        model = transformers.BertForQuestionAnswering.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            for name, value in head.items():
                model.get_parameter(name).copy_(value)
        return model.train()

    pairs = [tokenizer.encode("Who has a red kite?", TEXTS[1]),
             tokenizer.encode("Who bought the lemon?", TEXTS[2])]
    inputs = {
        "input_ids": padded([pair.ids for pair in pairs], 0),
        "token_type_ids": padded([pair.type_ids for pair in pairs], 0),
        "attention_mask": padded([pair.attention_mask for pair in pairs], 0),
        "start_positions": [12, 9], "end_positions": [14, 10],
    }
    golden("bert", make, inputs, {"param." + name: value for name, value in head.items()})


if __name__ == "__main__":
    t5()
    gpt2()
    bert()
