#!/usr/bin/env python3
"""Makes spec/golden/unigram.json: ids that the library `tokenizers` gives texts, by several chains.

    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3
    /tmp/golden/bin/python tools/make_unigram_golden.py

Run in the root of the sources. Every chain is a tokenizer.json with the same pieces. The character
map is what sentencepiece compiles of the rules below.
"""
import base64
import io
import json
import os
import tempfile

import sentencepiece
import tokenizers

RULES = [("\t", " "), ("\r", " "), ("\n", " "), ("e\u0301", "\u00e9"), ("\ufb01", "fi"),
         ("\u00bd", "1\u20442"), ("\u200b", ""), ("\u304b\u3099", "\u304c"), ("\u2026", "...")]

MARK = "\u2581"
PIECES = ["<pad>", "</s>", "<unk>", MARK, MARK + "the", "the", "he", "t", "h", "e", "\u00e9", "f", "i",
          "fi", MARK + "fi", "x", "fix", "-", "--", "---", "0", "00", "000", "1", "2", "\u2044", ".",
          "...", MARK + "a", "a", "b", "ab", MARK + MARK, MARK + MARK + MARK, "\u304c", "\u304b", "s",
          "<extra_id_1>", "<extra_id_0>"] + ["<0x%02X>" % i for i in (0xC3, 0xB6, 0x00)]
SCORES = {"---": -6.25, "--": -6.0999999046325684, "-": -5.012291431427002, "00": -7.300000190734863,
          "000": -8.154321670532227, "0": -4.012499809265137, "<unk>": 0.0, "<pad>": 0.0, "</s>": 0.0,
          "<extra_id_0>": 0.0, "<extra_id_1>": 0.0}
VOCAB = [[piece, SCORES.get(piece, round(-2.0122928619384766 - 0.30103 * i, 6))]
         for i, piece in enumerate(PIECES)]

TEXTS = ["the fix", " the  a\tb\r\nx ", "e\u0301 \ufb01\u0301x \u00bd\u2026", "----- 0000000 --",
         "\u304b\u3099\u304b", "a\u200bb\u200b", "\u200bthe", "<unk> the</s>  the", "<extra_id_0>the <extra_id_1>",
         "\u00f6\u00f6 \u00e4 \u0000", "THE Fix, a1b22", "  the", MARK + "the " + MARK, "", " ", "\n\n",
         "\u00e9\u0301\u0302 \u0130\u01c4", "the.the...a", "new fixs", "a \u3000b\u00a0s", "\u2028the\u2581\u2581a",
         "\u0001a\u008fb\ufeffs", "  New the", "\u0130the", "\u00bd\u200b1", "\u00bd1"]


def charsmap():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "rules.tsv")
        with open(path, "w") as file:
            for old, new in RULES:
                hexed = [" ".join("%X" % ord(c) for c in text) for text in (old, new)]
                file.write("\t".join(hexed) + "\n")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the fix a b the fix"] * 9), model_writer=model, vocab_size=16,
            normalization_rule_tsv=path, hard_vocab_limit=False, minloglevel=2)
        return normalizer_bytes(model.getvalue())


def fields(message):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            varint()
        if size is None:
            size = varint()
        yield tag >> 3, message[at:at + size]
        at += size


def normalizer_bytes(model):
    for number, value in fields(model):
        if number == 3:
            return base64.b64encode(dict(fields(value))[2]).decode()


def metaspace(scheme, split=True):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


def token(text, number, **flags):
    all_flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return dict(id=number, content=text, **{**all_flags, **flags})


def replace(kind, pattern, content):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def template(single, pair):
    def items(text):
        return [{"Sequence": {"id": p[0], "type_id": int(p[1])}} if p[0] in "AB" else
                {"SpecialToken": {"id": "</s>", "type_id": int(p[1])}} for p in text.split()]
    return {"type": "TemplateProcessing", "single": items(single), "pair": items(pair),
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}


def chains():
    compiled = {"type": "Precompiled", "precompiled_charsmap": "CHARSMAP"}
    hub = {"type": "Metaspace", "replacement": MARK, "str_rep": MARK, "add_prefix_space": True}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    converted = sequence("normalizers", compiled, strip, replace("Regex", " {2,}", MARK))
    yield "hub", compiled, sequence("pretokenizers", {"type": "WhitespaceSplit"}, hub), {}
    for scheme in ("always", "first", "never"):
        yield scheme, converted, metaspace(scheme), {}
    yield "whole", converted, metaspace("first", False), {}
    yield "small", sequence("normalizers", {"type": "NFKD"}, {"type": "StripAccents"},
                            {"type": "Lowercase"}), metaspace("always"), {}
    yield "nmt", sequence("normalizers", {"type": "Nmt"}, {"type": "NFKC"},
                          replace("String", "the", "a"), replace("Regex", "\\s+|[x-z]", " ")), \
        sequence("pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"},
                 metaspace("first")), {}
    yield "left", sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": False},
                           {"type": "Prepend", "prepend": MARK}, {"type": "NFC"}), \
        sequence("pretokenizers", {"type": "Digits", "individual_digits": False},
                 metaspace("first")), {}
    yield "expanded", compiled, sequence("pretokenizers", {"type": "Digits", "individual_digits": True},
                                         metaspace("first")), {}
    yield "runs", {"type": "NFD"}, {"type": "Whitespace"}, {}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield behavior, None, {"type": "Split", "pattern": {"Regex": "[ab]| "}, "behavior": behavior,
                               "invert": behavior == "Isolated"}, {}
    yield "bytes", None, None, {"byte_fallback": True}
    more = [token("<b>", 42, lstrip=True), token("New", 43, normalized=True, special=False),
            token("\ufb01xs", 44, normalized=True, rstrip=True)]
    yield "added", sequence("normalizers", compiled, {"type": "Lowercase"}), metaspace("first"), \
        {"more": more}


def main():
    made = charsmap()
    tokens = [token(text, PIECES.index(text)) for text in
              ("<pad>", "</s>", "<extra_id_1>", "<extra_id_0>")]
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
            "post_processor": template("A0 s0", "A0 s0 B1 s1"), "decoder": metaspace("always")}
    rows = []
    for name, normalizer, cutter, more in chains():
        root = {**base, "normalizer": normalizer, "pre_tokenizer": cutter,
                "added_tokens": tokens + more.get("more", []),
                "model": {"type": "Unigram", "unk_id": 2, "vocab": VOCAB,
                          "byte_fallback": more.get("byte_fallback", False)}}
        library = tokenizers.Tokenizer.from_str(json.dumps(root).replace("CHARSMAP", made))
        pair = library.encode(TEXTS[0], TEXTS[1])
        rows.append({"name": name, "normalizer": normalizer, "pre_tokenizer": cutter, **more,
                     "ids": [library.encode(t).ids for t in TEXTS],
                     "pair": [pair.ids, pair.type_ids]})
    head = {"made_by": "tools/make_unigram_golden.py", "tokenizers": tokenizers.__version__,
            "charsmap": made, "vocab": VOCAB, "base": base,
            "texts": [t.encode().hex() for t in TEXTS]}
    short = {"separators": (",", ":")}
    with open("spec/golden/unigram.json", "w") as file:
        lines = ["%s:%s" % (json.dumps(k), json.dumps(v, **short)) for k, v in head.items()]
        lines.append('"rows":[\n' + ",\n".join(json.dumps(r, **short) for r in rows) + "\n]")
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


main()
