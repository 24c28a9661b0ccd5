/* test/fuzz/fuzz_tokenizer_files.c - the first byte chooses what the others are: vocab.txt (v),
 * vocab.json (j), merges.txt (m), tokenizer.json (t), added_tokens.json (a),
 * special_tokens_map.json (s), tokenizer_config.json (c), or text for WordPiece (w), for BPE (b),
 * for bytes (y), for tokenizer.json's kinds (x). What loads then meets a text. */
#include <string.h>

#include "../tokenizer_files.h"
#include "base/alloc.h"
#include "base/utf8.h"
#include "tokens/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char own_text[] =
    "Hello, running! abcd ba\xC3\xA9<|endoftext|>[MASK] \xE4\xB8\xAD</s>";

/* Encodes, decodes, splits, frees; checks that ids are in range. BPE may lack a byte. */
static void use(ft_tokenizer *tokenizer, ft_slice text)
{
    int32_t *ids;
    int64_t n, n_back;
    char *back = NULL;
    ft_strings strings;
    bool valid = ft_utf8_check(text.bytes, text.size) < 0;
    ft_status status = ft_tokenizer_encode(tokenizer, text.bytes, text.size, &ids, &n, NULL);
    if (status == FT_OK && !valid) __builtin_trap();
    for (int64_t i = 0; i < n; i++)
        if (!ft_tokenizer_piece(tokenizer, ids[i])) __builtin_trap();
    for (int skip = 0; status == FT_OK && skip < 2; skip++) {
        if (ft_tokenizer_decode(tokenizer, ids, n, skip, &back, &n_back, NULL) != FT_OK)
            __builtin_trap();
        if (ft_utf8_check(back, n_back) >= 0) __builtin_trap();
        ft_free(back);
    }
    ft_free(ids);
    if ((ft_basic_split(text.bytes, text.size, &uncased, &strings, NULL) == FT_OK) != valid)
        __builtin_trap();
    ft_strings_fini(&strings);
    ft_tokenizer_free(tokenizer);
}

/* The bytes as a file beside vocab.txt. */
static void use_with(ft_slice file, char form, ft_slice text)
{
    ft_tokenizer *tokenizer;
    ft_error err;
    ft_slice vocab = SLICE(vocab_txt), added = SLICE(added_json), none = {0};
    if (ft_tokenizer_load_wordpiece(&tokenizer, vocab.bytes, vocab.size, "own", &uncased, NULL,
                                    &err) != FT_OK)
        __builtin_trap();
    ft_token_files files = {.settings = form == 'c' ? file : none,
                            .added = form == 'a' ? file : added,
                            .map = form == 's' ? file : none};
    ft_status status = ft_tokenizer_add_files(tokenizer, &files, "own", &err);
    if (status == FT_OK)
        use(tokenizer, text);
    else
        ft_tokenizer_free(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const ft_slice json[] = {SLICE(wordpiece_json), SLICE(bpe_json), SLICE(unigram_json),
                             SLICE(chain_json)};
    if (size == 0) return 0;
    char form = (char)data[0];
    ft_slice rest = {(const char *)data + 1, (int64_t)size - 1}, text = SLICE(own_text);
    ft_slice vocab = form == 'v' ? rest : SLICE(vocab_txt);
    ft_slice ids = form == 'j' ? rest : SLICE(vocab_json);
    ft_slice merges = form == 'm' ? rest : SLICE(merges_txt);
    if (form == 'w' || form == 'b' || form == 'x' || form == 'y') text = rest;
    ft_tokenizer *tokenizer = NULL;
    ft_error err;
    if ((form == 'v' || form == 'w') &&
        ft_tokenizer_load_wordpiece(&tokenizer, vocab.bytes, vocab.size, "own", &uncased, NULL,
                                    &err) == FT_OK)
        use(tokenizer, text);
    if (form == 'a' || form == 's' || form == 'c') use_with(rest, form, text);
    if ((form == 'j' || form == 'm' || form == 'b') &&
        ft_tokenizer_load_byte_bpe(&tokenizer, ids, merges, form == 'b', "own", &err) == FT_OK)
        use(tokenizer, text);
    if (form == 't' &&
        ft_tokenizer_load_json(&tokenizer, rest.bytes, rest.size, NULL, "own", &err) == FT_OK)
        use(tokenizer, text);
    if (form == 'y' && ft_tokenizer_load_bytes(&tokenizer, 2, &err) == FT_OK) use(tokenizer, text);
    for (int i = 0; form == 'x' && i < 4; i++)
        if (ft_tokenizer_load_json(&tokenizer, json[i].bytes, json[i].size, NULL, "own", &err) ==
            FT_OK)
            use(tokenizer, text);
    return 0;
}
