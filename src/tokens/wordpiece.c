/* tokens/wordpiece.c - WordPiece, as BERT does it.
 *
 * Each word of the basic tokenizer (basic.c) is cut, from the left, into the longest pieces that
 * the vocabulary has; pieces behind the first one are written with a prefix ("##ing"). A word that
 * cannot be cut so, or is too long, is [UNK] as a whole. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "tokens/internal.h"

static const ft_special_name special_names[] = {
    {"pad", {"[PAD]"}}, {"unk", {"[UNK]"}},   {"cls", {"[CLS]"}},
    {"sep", {"[SEP]"}}, {"mask", {"[MASK]"}}, {NULL, {NULL}},
};

typedef struct wordpiece {
    ft_vocabulary vocabulary;
    ft_basic_options basic;
    int64_t longest_word;
    ft_piece prefix; /* its text is the vocabulary's */
    uint32_t prefix_hash;
    int32_t unknown;
} wordpiece;

static int wordpiece_size(const void *model)
{
    return ((const wordpiece *)model)->vocabulary.n;
}

static const char *wordpiece_piece(const void *model, int32_t id)
{
    return ((const wordpiece *)model)->vocabulary.pieces[id].text;
}

static int32_t wordpiece_find(const void *model, const char *piece, int64_t size)
{
    return ft_vocabulary_find(&((const wordpiece *)model)->vocabulary, piece, size);
}

static void wordpiece_free(void *model)
{
    wordpiece *w = model;
    if (w) ft_vocabulary_fini(&w->vocabulary);
    ft_free(w);
}

const ft_basic_options *ft_wordpiece_basic(const void *model)
{
    return &((const wordpiece *)model)->basic;
}

/* -- encoding --------------------------------------------------------------------------------- */

/* The id of the longest piece that begins the n bytes of `rest`, and its bytes; FT_NO_ID when there
 * is none. Most often all of it is one piece, so that is looked for first. */
static int32_t longest_piece(const wordpiece *w, const char *rest, int64_t n, bool first,
                             int64_t *size)
{
    ft_piece prefix = first ? (ft_piece){"", 0} : w->prefix;
    uint32_t hash = first ? FT_HASH_START : w->prefix_hash;
    int64_t most = w->vocabulary.longest - prefix.size;
    int32_t best = FT_NO_ID;
    if (n <= most) {
        best = ft_vocabulary_probe(&w->vocabulary, ft_hash(hash, rest, n), prefix, rest, n);
        *size = n;
        if (best != FT_NO_ID) return best;
    }
    for (int64_t i = 1; i < n && i <= most; i++) {
        hash = ft_hash(hash, rest + i - 1, 1);
        if (((unsigned char)rest[i] & 0xC0) == 0x80) continue; /* inside a character */
        int32_t id = ft_vocabulary_probe(&w->vocabulary, hash, prefix, rest, i);
        if (id == FT_NO_ID) continue;
        best = id;
        *size = i;
    }
    return best;
}

static ft_status wordpiece_normalize(const void *model, ft_stretch text, ft_bytes *out,
                                     int64_t *head, ft_error *err)
{
    *head = 0;
    bool fits = ft_basic_normalize(text.bytes, text.size, ft_wordpiece_basic(model), out);
    return fits ? FT_OK : ft_bytes_no_memory(out, err);
}

typedef struct encoding {
    const wordpiece *model;
    ft_ids *ids;
} encoding;

static bool encode_word(void *context, const char *word, int64_t n, int64_t n_chars)
{
    encoding *e = context;
    const wordpiece *w = e->model;
    int64_t start = e->ids->n, size = 0;
    for (int64_t from = 0; from < n; from += size) {
        int32_t id = n_chars > w->longest_word
                         ? FT_NO_ID
                         : longest_piece(w, word + from, n - from, from == 0, &size);
        if (id == FT_NO_ID) {
            e->ids->n = start;
            return ft_ids_add(e->ids, &w->unknown, 1);
        }
        if (!ft_ids_add(e->ids, &id, 1)) return false;
    }
    return true;
}

static ft_status wordpiece_encode(const void *model, ft_stretch text, ft_ids *ids, ft_error *err)
{
    const wordpiece *w = model;
    encoding e = {w, ids};
    bool fits = ft_basic_words(text.bytes, text.size, &w->basic, encode_word, &e);
    return fits ? FT_OK : ft_ids_no_memory(ids, err);
}

/* -- decoding --------------------------------------------------------------------------------- */

static ft_status wordpiece_decode(const void *model, const int32_t *ids, int64_t n, ft_bytes *text,
                                  ft_error *err)
{
    const wordpiece *w = model;
    for (int64_t i = 0; i < n; i++) {
        ft_piece piece = w->vocabulary.pieces[ids[i]];
        bool begun = text->n > 0;
        bool goes_on = begun && piece.size > w->prefix.size &&
                       memcmp(piece.text, w->prefix.text, (size_t)w->prefix.size) == 0;
        int32_t skip = goes_on ? w->prefix.size : 0;
        if ((begun && !goes_on && !ft_bytes_add(text, " ", 1)) ||
            !ft_bytes_add(text, piece.text + skip, piece.size - skip))
            return ft_bytes_no_memory(text, err);
    }
    return FT_OK;
}

const ft_tokenizer_kind_row ft_kind_wordpiece = {
    .name = "wordpiece",
    .pair = {"cls", "sep", "sep", 1},
    .specials = special_names,
    .separator = " ",
    .size = wordpiece_size,
    .piece = wordpiece_piece,
    .find = wordpiece_find,
    .normalize = wordpiece_normalize,
    .encode = wordpiece_encode,
    .decode = wordpiece_decode,
    .free = wordpiece_free,
};

/* -- making ----------------------------------------------------------------------------------- */

ft_status ft_wordpiece_new(void **out, ft_vocabulary *vocabulary,
                           const ft_wordpiece_options *options, const char *name, ft_error *err)
{
    *out = NULL;
    wordpiece *w = ft_alloc(sizeof *w);
    int64_t n_prefix = (int64_t)strlen(options->prefix);
    char *prefix = w ? ft_vocabulary_copy(vocabulary, options->prefix, n_prefix) : NULL;
    int32_t unknown =
        ft_vocabulary_find(vocabulary, options->unknown, (int64_t)strlen(options->unknown));
    if (unknown == FT_NO_ID || !prefix) {
        ft_free(w);
        ft_vocabulary_fini(vocabulary);
        if (unknown == FT_NO_ID)
            return ft_fail(err, FT_FORMAT,
                           "%s: holds no piece %.64s, expected one for what is unknown", name,
                           options->unknown);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    }
    *w = (wordpiece){
        .vocabulary = *vocabulary,
        .basic = options->basic,
        .longest_word = options->longest_word,
        .prefix = {prefix, (int32_t)n_prefix},
        .prefix_hash = ft_hash(FT_HASH_START, prefix, n_prefix),
        .unknown = unknown,
    };
    *vocabulary = (ft_vocabulary){0};
    *out = w;
    return FT_OK;
}

/* -- vocab.txt -------------------------------------------------------------------------------- */

/* Lines end in LF or CR LF; the last one may have no end. */
static ft_status read_lines(ft_vocabulary *vocabulary, const char *text, int64_t size,
                            const char *name, ft_error *err)
{
    int32_t id = 0;
    for (int64_t from = 0; from < size; id++) {
        const char *newline = memchr(text + from, '\n', (size_t)(size - from));
        int64_t end = newline ? newline - text : size, next = end + 1;
        if (end > from && text[end - 1] == '\r') end--;
        if (memchr(text + from, 0, (size_t)(end - from)))
            return ft_fail(err, FT_FORMAT, "%s:%d: NUL byte", name, (int)id + 1);
        if (ft_vocabulary_add(vocabulary, text + from, end - from, id, err) != FT_OK)
            return err ? ft_error_wrap(err, "%s:%d", name, (int)id + 1) : FT_FORMAT;
        from = next;
    }
    return FT_OK;
}

ft_status ft_tokenizer_load_wordpiece(ft_tokenizer **out, const char *vocab, int64_t size,
                                      const char *name, const ft_basic_options *options,
                                      const char *unknown, ft_error *err)
{
    ft_vocabulary vocabulary = {0};
    ft_specials specials = {0};
    void *model = NULL;
    ft_status status = FT_OK;
    *out = NULL;
    int64_t bad = ft_utf8_check(vocab, size);
    if (bad >= 0)
        return ft_fail(err, FT_FORMAT, "%s: not UTF-8: byte 0x%02x at position %lld", name,
                       (unsigned char)vocab[bad], (long long)bad);
    FT_GO(read_lines(&vocabulary, vocab, size, name, err));
    FT_GO(ft_specials_add_names(&specials, special_names, &vocabulary, err));
    FT_GO(ft_wordpiece_new(&model, &vocabulary,
                           &(ft_wordpiece_options){*options, unknown ? unknown : "[UNK]", "##",
                                                   FT_WORDPIECE_LONGEST_WORD},
                           name, err));
    return ft_tokenizer_new(out, &ft_kind_wordpiece, model, &specials, err);
done:
    ft_vocabulary_fini(&vocabulary);
    ft_specials_fini(&specials);
    return status;
}
