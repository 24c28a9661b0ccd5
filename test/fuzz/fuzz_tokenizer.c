/* test/fuzz/fuzz_tokenizer.c - the first byte chooses: any bytes as text for the small model of our
 * own, or any bytes as a model, which then meets a text. */
#include <string.h>

#include "../spm_model.h"
#include "base/alloc.h"
#include "base/utf8.h"
#include "tokens/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EXTRA = 12 };

/* Encodes, decodes, and checks that ids are in range and text is whole. */
static void round_trip(const ft_tokenizer *tokenizer, const char *text, int64_t size)
{
    ft_error err;
    int32_t *ids;
    int64_t n, n_back;
    bool valid = ft_utf8_check(text, size) < 0;
    ft_status status = ft_tokenizer_encode(tokenizer, text, size, &ids, &n, &err);
    if ((status == FT_OK) != valid) __builtin_trap();
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || !ft_tokenizer_piece(tokenizer, ids[i])) __builtin_trap();
    char *back = NULL;
    for (int skip = 0; status == FT_OK && skip < 2; skip++) {
        if (ft_tokenizer_decode(tokenizer, ids, n, skip, &back, &n_back, &err) != FT_OK)
            __builtin_trap();
        ft_free(back);
    }
    ft_free(ids);
}

static void use_model(const void *bytes, int64_t size, const char *text, int64_t n_text)
{
    ft_error err;
    ft_tokenizer *tokenizer;
    if (ft_tokenizer_load(&tokenizer, bytes, size, EXTRA, &err) != FT_OK) return;
    round_trip(tokenizer, text, n_text);
    ft_tokenizer_free(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] =
        "hello </s> world <extra_id_3> \xC3\xA9\xE2\x96\x81 \xF0\x9F\x98\x80";
    if (size == 0) return 0;
    if (data[0] == 'm') {
        use_model(data + 1, (int64_t)size - 1, text, (int64_t)sizeof text - 1);
        return 0;
    }
    spm_bytes model;
    spm_model(&model, spm_pieces, SPM_N, NULL, 0);
    use_model(model.data, model.n, (const char *)data + 1, (int64_t)size - 1);
    return 0;
}
