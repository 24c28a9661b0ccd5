"""Hugging Face `tokenizers`, one thread: the peer of bench/tokenizer.lua.

tokenizer_hf.py KIND DIR TEXT: reads a line, encodes every line of TEXT, prints seconds and ids.
"""
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402

kind, directory, text = sys.argv[1:4]
if kind == "wordpiece":
    with open(directory + "/vocab.txt", encoding="utf-8") as file:
        vocab = {line.rstrip("\n"): i for i, line in enumerate(file)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
elif kind == "unigram":
    tokenizer = Tokenizer.from_file(directory + "/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
else:
    tokenizer = Tokenizer(models.BPE.from_file(directory + "/vocab.json", directory + "/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
with open(text, encoding="utf-8") as file:
    lines = [line for line in file.read().split("\n") if line]

for _ in sys.stdin:
    start = time.process_time()
    n = sum(len(e.ids) for e in tokenizer.encode_batch(lines, add_special_tokens=False))
    print(time.process_time() - start, n, flush=True)
