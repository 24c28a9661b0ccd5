/* test/tokenizer_files.h - small files of each kind of tokenizer. */
#ifndef FT_TEST_TOKENIZER_FILES_H
#define FT_TEST_TOKENIZER_FILES_H

#include "tokens/tokens.h"

static const char vocab_txt[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nrun\n##ning\n##n\n"
                                "world\n,\n!\n##l\n\xE4\xB8\xAD\n";

/* Beside vocab.txt. */
static const char added_json[] = "{\"<new>\":14,\"covid\":15,\"UP\":16}";
static const char map_json[] = "{\"sep_token\":\"<new>\",\"mask_token\":{\"content\":\"[MASK]\","
                               "\"lstrip\":true},\"additional_special_tokens\":[\"world\"]}";
static const char settings_json[] =
    "{\"added_tokens_decoder\":{\"4\":{\"content\":\"[MASK]\",\"lstrip\":true,\"special\":true},"
    "\"14\":{\"content\":\"<new>\",\"rstrip\":true,\"special\":true},"
    "\"15\":{\"content\":\"covid\",\"normalized\":true},\"16\":{\"content\":\"UP\"}},"
    "\"sep_token\":\"<new>\",\"mask_token\":\"[MASK]\",\"add_bos_token\":true,\"bos_token\":null,"
    "\"additional_special_tokens\":[\"world\"]}";

/* Letters a to d, a space, what they make; other bytes have no piece. */
static const char vocab_json[] = "{\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"\\u0120\":4,\"ab\":5,\"cd\":6,"
                                 "\"abcd\":7,\"\\u0120a\":8,\"aa\":9,\"ba\":10,"
                                 "\"<|endoftext|>\":11}";
static const char merges_txt[] = "#version: 0.2\nb a\na a\na b\nc d\nab cd\n\xC4\xA0 a\n";

static const char wordpiece_json[] =
    "{\"added_tokens\":[{\"id\":1,\"content\":\"[MASK]\",\"special\":true,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","
    "\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,\"[MASK]\":1,\"he\":2,\"##llo\":3,\"!\":4}}}";

static const char bpe_json[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<|endoftext|>\",\"special\":true}],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"abab\":3},"
    "\"merges\":[\"a b\",[\"ab\",\"ab\"]]}}";

static const char unigram_json[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"</s>\",\"special\":true}],\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"</s>\",0],[\"<unk>\",0],"
    "[\"\\u2581\",-2],[\"\\u2581ab\",-3.5],[\"a\",-4],[\"b\",-4]]}}";

/* Every step that has no table of its own, and a template. */
static const char chain_json[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"</s>\",\"special\":true},"
    "{\"id\":6,\"content\":\"A b\",\"normalized\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},"
    "{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},{\"type\":\"StripAccents\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}|\\\\s\"},\"content\":\" \"},"
    "{\"type\":\"Strip\",\"strip_right\":false},{\"type\":\"Prepend\",\"prepend\":\"a\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
    "{\"type\":\"Punctuation\",\"behavior\":\"MergedWithPrevious\"},{\"type\":\"Whitespace\"},"
    "{\"type\":\"Split\",\"pattern\":{\"String\":\"ab\"},\"behavior\":\"Contiguous\"},"
    "{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\"}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\","
    "\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
    "\"pair\":[{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},{\"SpecialToken\":{\"id\":\"</s>\"}}],"
    "\"special_tokens\":{\"</s>\":{\"ids\":[0]}}},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"byte_fallback\":true,\"vocab\":[[\"</s>\",0],"
    "[\"<unk>\",0],[\"\\u2581\",-2],[\"<0xC3>\",-3.5],[\"<0xA9>\",-4],[\"b\",-4]]}}";

static const ft_basic_options uncased = {true, true, true};

/* The bytes of a literal. */
#define SLICE(text) ((ft_slice){text, (int64_t)sizeof(text) - 1})

#endif
