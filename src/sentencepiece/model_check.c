/* sentencepiece/model_check.c - the parts of a sentencepiece model that its library takes on trust.
 *
 * The normaliser of a model is a table of bytes: a Darts double array (a trie) and the texts that
 * its leaves point to. libsentencepiece follows its offsets without looking at the bounds, so a
 * damaged or hostile model would make it read anywhere. Here every offset is checked once, at load.
 * Whatever else is wrong the library finds itself. */
#include <string.h>

#include "base/utf8.h"
#include "sentencepiece/spm_file.h"
#include "sentencepiece/sentencepiece.h"

/* Whether a unit that says that a key ends with it does lead to a leaf; reach is below n. */
static bool ends_in_leaf(ft_span units, uint32_t unit, int64_t i)
{
    if (unit & FT_SPM_TRIE_LEAF || !(unit & FT_SPM_TRIE_ENDS)) return true;
    return ft_trie_unit(units, ft_trie_base(unit, i)) & FT_SPM_TRIE_LEAF;
}

/* Every leaf is to point into the texts, every other unit to units, whatever the byte. */
static ft_status check_trie(ft_span units, int64_t n_texts, ft_error *err)
{
    int64_t n = units.size / 4;
    if (n == 0 || units.size % 4 != 0)
        return ft_fail(err, FT_FORMAT,
                       "sentencepiece model: character map of %lld bytes is not units of 4",
                       (long long)units.size);
    for (int64_t i = 0; i < n; i++) {
        uint32_t unit = ft_trie_unit(units, i);
        bool leaf = unit & FT_SPM_TRIE_LEAF;
        int64_t reach = leaf ? (int64_t)(unit & ~FT_SPM_TRIE_LEAF) : ft_trie_base(unit, i) | 0xFF;
        if (reach >= (leaf ? n_texts : n))
            return ft_fail(err, FT_FORMAT,
                           "sentencepiece model: character map unit %lld leads to %lld of %lld",
                           (long long)i, (long long)reach, (long long)(leaf ? n_texts : n));
        if ((leaf && i == 0) || !ends_in_leaf(units, unit, i))
            return ft_fail(err, FT_FORMAT, "sentencepiece model: character map unit %lld %s",
                           (long long)i, leaf ? "is a leaf, and the root" : "leads to no leaf");
    }
    return FT_OK;
}

ft_status ft_charmap_check(ft_span map, ft_error *err)
{
    if (map.size == 0) return FT_OK;
    uint32_t trie = 0;
    if (map.size > FT_SPM_TRIE_AT) memcpy(&trie, map.data, FT_SPM_TRIE_AT);
    if (map.size <= FT_SPM_TRIE_AT || trie >= map.size - FT_SPM_TRIE_AT)
        return ft_fail(err, FT_FORMAT, "sentencepiece model: character map of %lld bytes is cut",
                       (long long)map.size);
    if (map.data[map.size - 1] != 0)
        return ft_fail(err, FT_FORMAT, "sentencepiece model: character map does not end in NUL");
    int64_t texts = FT_SPM_TRIE_AT + (int64_t)trie, n_texts = map.size - texts;
    int64_t bad = ft_utf8_check((const char *)map.data + texts, n_texts);
    if (bad >= 0)
        return ft_fail(err, FT_FORMAT,
                       "sentencepiece model: character map's texts are not UTF-8 at byte %lld",
                       (long long)bad);
    return check_trie((ft_span){map.data + FT_SPM_TRIE_AT, trie}, n_texts, err);
}

static ft_status check_normalizer(ft_span spec, ft_error *err)
{
    ft_field field;
    while (spec.size > 0) {
        if (!ft_field_take(&spec, &field))
            return ft_fail(err, FT_FORMAT, "sentencepiece model: malformed normalizer");
        if (field.number == FT_SPM_NORMALIZER_CHARSMAP && field.is_bytes)
            FT_TRY(ft_charmap_check(field.bytes, err));
    }
    return FT_OK;
}

ft_status ft_spm_check(const void *bytes, int64_t size, ft_error *err)
{
    ft_span model = {bytes, size};
    ft_field field;
    while (model.size > 0) {
        int64_t at = size - model.size;
        if (!ft_field_take(&model, &field))
            return ft_fail(err, FT_FORMAT, "sentencepiece model: malformed at byte %lld of %lld",
                           (long long)at, (long long)size);
        bool normalizer = field.number == FT_SPM_NORMALIZER || field.number == FT_SPM_DENORMALIZER;
        if (normalizer && field.is_bytes) FT_TRY(check_normalizer(field.bytes, err));
    }
    return FT_OK;
}
