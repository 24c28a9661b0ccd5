/* tokens/byte_bpe.c - byte-level BPE, as GPT-2 does it.
 *
 * A pattern cuts text into words, each with the space before it; the bytes of a word are the first
 * ids, and pairs of ids are put together by rank (merges.c). Vocabularies write each byte as one
 * printable character. Words come again and again, so what became of short ones is remembered. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "tokens/internal.h"

enum { N_BYTES = 256, CACHE_SLOTS = 1 << 14, CACHE_BYTES = 29, CACHE_IDS = 8 };

static const ft_special_name special_names[] = {
    {"eos", {"<|endoftext|>", "</s>"}},
    {"bos", {"<|endoftext|>", "<s>"}},
    {"unk", {"<|endoftext|>", "<unk>"}},
    {"pad", {"<pad>", "[PAD]", "<|pad|>"}},
    {NULL, {NULL}},
};

/* The pattern that GPT-2 was published with (Radford et al., 2019). */
static const char pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" FT_CHAR_BLANKS
    "\\p{L}\\p{N}]+|[" FT_CHAR_BLANKS "]+(?![^" FT_CHAR_BLANKS "])|[" FT_CHAR_BLANKS "]+";

/* A word and its ids. Who finds it busy does without. */
typedef struct cache_slot {
    atomic_bool busy;
    uint8_t n_bytes, n_ids; /* n_bytes 0: empty */
    char bytes[CACHE_BYTES];
    int32_t ids[CACHE_IDS];
} cache_slot;

typedef struct byte_bpe {
    ft_vocabulary vocabulary;
    ft_merges merges;
    ft_piece *raw;          /* by id: the bytes that a piece stands for */
    int32_t bytes[N_BYTES]; /* ids */
    bool prefix_space;
    pcre2_general_context *memory;
    pcre2_code *words;
    cache_slot *cache;
} byte_bpe;

static int byte_bpe_size(const void *model)
{
    return ((const byte_bpe *)model)->vocabulary.n;
}

static const char *byte_bpe_piece(const void *model, int32_t id)
{
    return ((const byte_bpe *)model)->vocabulary.pieces[id].text;
}

static int32_t byte_bpe_find(const void *model, const char *piece, int64_t size)
{
    return ft_vocabulary_find(&((const byte_bpe *)model)->vocabulary, piece, size);
}

static void byte_bpe_free(void *model)
{
    byte_bpe *b = model;
    if (!b) return;
    ft_vocabulary_fini(&b->vocabulary);
    ft_merges_fini(&b->merges);
    ft_free(b->raw);
    ft_free(b->cache);
    pcre2_code_free(b->words);
    pcre2_general_context_free(b->memory);
    ft_free(b);
}

/* -- encoding --------------------------------------------------------------------------------- */

typedef struct encoding {
    const byte_bpe *model;
    pcre2_match_data *match;
    ft_merge_space space;
    ft_ids *ids;
} encoding;

static cache_slot *cache_slot_of(const byte_bpe *b, const char *word, int64_t n)
{
    uint32_t hash = ft_hash(FT_HASH_START, word, n);
    return &b->cache[(hash ^ hash >> 16) % CACHE_SLOTS];
}

/* Appends the ids of a remembered word; false when it is not remembered, or no memory is left. */
static bool recall(const encoding *e, const char *word, int64_t n)
{
    cache_slot *slot = cache_slot_of(e->model, word, n);
    if (atomic_exchange_explicit(&slot->busy, true, memory_order_acquire)) return false;
    bool known = slot->n_bytes == n && memcmp(slot->bytes, word, (size_t)n) == 0 &&
                 ft_ids_add(e->ids, slot->ids, slot->n_ids);
    atomic_store_explicit(&slot->busy, false, memory_order_release);
    return known;
}

static void remember(const encoding *e, const char *word, int64_t n, const int32_t *ids,
                     int64_t n_ids)
{
    cache_slot *slot = cache_slot_of(e->model, word, n);
    if (n_ids > CACHE_IDS || atomic_exchange_explicit(&slot->busy, true, memory_order_acquire))
        return;
    slot->n_bytes = (uint8_t)n;
    slot->n_ids = (uint8_t)n_ids;
    memcpy(slot->bytes, word, (size_t)n);
    memcpy(slot->ids, ids, (size_t)n_ids * sizeof *ids);
    atomic_store_explicit(&slot->busy, false, memory_order_release);
}

static ft_status encode_word(encoding *e, const char *word, int64_t n, ft_error *err)
{
    const byte_bpe *b = e->model;
    if (n <= CACHE_BYTES && recall(e, word, n)) return FT_OK;
    int64_t start = e->ids->n;
    for (int64_t i = 0; i < n; i++) {
        int32_t id = b->bytes[(unsigned char)word[i]];
        if (id == FT_NO_ID)
            return ft_fail(err, FT_FORMAT, "the vocabulary has no piece for byte 0x%02x of '%.*s'",
                           (unsigned char)word[i], (int)(n < 64 ? n : 64), word);
        if (!ft_ids_add(e->ids, &id, 1)) return ft_ids_no_memory(e->ids, err);
    }
    int64_t left = ft_merges_apply(&b->merges, &e->space, e->ids->data + start, n);
    if (left < 0) return ft_ids_no_memory(e->ids, err);
    e->ids->n = start + left;
    if (n <= CACHE_BYTES) remember(e, word, n, e->ids->data + start, left);
    return FT_OK;
}

static ft_status encode_words(encoding *e, const char *text, int64_t size, ft_error *err)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(e->match);
    for (int64_t at = 0; at < size; at = (int64_t)span[1]) {
        int rc = pcre2_match(e->model->words, (PCRE2_SPTR)text, (PCRE2_SIZE)size, (PCRE2_SIZE)at,
                             PCRE2_NO_UTF_CHECK, e->match, NULL);
        if (rc == PCRE2_ERROR_NOMEMORY) return ft_ids_no_memory(e->ids, err);
        if (rc <= 0)
            return ft_fail(err, FT_UNSUPPORTED, "text at byte %lld cannot be cut (PCRE2 error %d)",
                           (long long)at, rc);
        FT_TRY(encode_word(e, text + at, (int64_t)span[1] - at, err));
    }
    return FT_OK;
}

static ft_status byte_bpe_encode(const void *model, ft_stretch stretch, ft_ids *ids, ft_error *err)
{
    const byte_bpe *b = model;
    const char *text = stretch.bytes;
    int64_t size = stretch.size;
    ft_bytes spaced = {0};
    if (b->prefix_space && text[0] != ' ') {
        if (!ft_bytes_add(&spaced, " ", 1) || !ft_bytes_add(&spaced, text, size)) {
            ft_free(spaced.data);
            return ft_bytes_no_memory(&spaced, err);
        }
        text = spaced.data;
        size = spaced.n;
    }
    encoding e = {.model = b, .ids = ids, .match = pcre2_match_data_create(1, b->memory)};
    ft_status status = e.match ? encode_words(&e, text, size, err) : ft_ids_no_memory(ids, err);
    pcre2_match_data_free(e.match);
    ft_merge_space_fini(&e.space);
    ft_free(spaced.data);
    return status;
}

static ft_status byte_bpe_decode(const void *model, const int32_t *ids, int64_t n, ft_bytes *text,
                                 ft_error *err)
{
    const byte_bpe *b = model;
    for (int64_t i = 0; i < n; i++)
        if (!ft_bytes_add(text, b->raw[ids[i]].text, b->raw[ids[i]].size))
            return ft_bytes_no_memory(text, err);
    return FT_OK;
}

const ft_tokenizer_kind_row ft_kind_byte_bpe = {
    .name = "byte_bpe",
    .pair = {NULL, NULL, NULL, 0},
    .specials = special_names,
    .separator = "",
    .size = byte_bpe_size,
    .piece = byte_bpe_piece,
    .find = byte_bpe_find,
    .encode = byte_bpe_encode,
    .decode = byte_bpe_decode,
    .free = byte_bpe_free,
};

/* -- making ----------------------------------------------------------------------------------- */

/* The characters that stand for bytes: printable ones of Latin-1 for themselves, the others, in
 * order, from U+0100. */
static void byte_chars(int16_t chars[N_BYTES])
{
    int16_t next = 256;
    for (int16_t i = 0; i < N_BYTES; i++) {
        bool printable = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        chars[i] = printable ? i : next++;
    }
}

static int64_t put_char(char *out, int c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

/* The bytes that a piece stands for; a piece with other characters stands for itself. */
static ft_piece raw_piece(byte_bpe *b, ft_piece piece, const int16_t *byte_of)
{
    char *raw = ft_vocabulary_copy(&b->vocabulary, piece.text, piece.size);
    int32_t n = 0;
    for (int32_t i = 0; raw && i < piece.size; n++) {
        unsigned char c = (unsigned char)piece.text[i];
        int wide = c < 0x80 ? c
                   : (c & 0xE0) == 0xC0 && i + 1 < piece.size
                       ? (c & 0x1F) << 6 | (piece.text[i + 1] & 0x3F)
                       : N_BYTES * 2;
        if (wide >= N_BYTES * 2 || byte_of[wide] < 0) return piece;
        raw[n] = (char)byte_of[wide];
        i += c < 0x80 ? 1 : 2;
    }
    if (raw) raw[n] = 0;
    return (ft_piece){raw, n};
}

static bool make_raw(byte_bpe *b)
{
    int16_t byte_of[N_BYTES * 2], chars[N_BYTES];
    memset(byte_of, 0xFF, sizeof byte_of);
    byte_chars(chars);
    for (int i = 0; i < N_BYTES; i++) {
        char text[2];
        byte_of[chars[i]] = (int16_t)i;
        b->bytes[i] = ft_vocabulary_find(&b->vocabulary, text, put_char(text, chars[i]));
    }
    b->raw = ft_alloc(b->vocabulary.n * (int64_t)sizeof *b->raw);
    if (!b->raw) return false;
    for (int id = 0; id < b->vocabulary.n; id++) {
        b->raw[id] = raw_piece(b, b->vocabulary.pieces[id], byte_of);
        if (!b->raw[id].text) return false;
    }
    return true;
}

/* Every character belongs to a word, so each match begins where the last one ended. Without JIT
 * (where memory cannot be made executable) PCRE2 interprets. */
static bool make_pattern(byte_bpe *b)
{
    int code;
    PCRE2_SIZE offset;
    b->memory = pcre2_general_context_create(ft_alloc_for, ft_free_for, NULL);
    pcre2_compile_context *context = b->memory ? pcre2_compile_context_create(b->memory) : NULL;
    if (!context) return false;
    b->words = pcre2_compile((PCRE2_SPTR)pattern, sizeof pattern - 1,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!b->words) return false;
    pcre2_jit_compile(b->words, PCRE2_JIT_COMPLETE);
    return true;
}

ft_status ft_byte_bpe_new(void **out, ft_vocabulary *vocabulary, ft_merges *merges,
                          bool prefix_space, ft_error *err)
{
    *out = NULL;
    byte_bpe *b = ft_alloc(sizeof *b);
    if (!b) {
        ft_vocabulary_fini(vocabulary);
        ft_merges_fini(merges);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    }
    *b = (byte_bpe){.vocabulary = *vocabulary, .merges = *merges, .prefix_space = prefix_space};
    *vocabulary = (ft_vocabulary){0};
    *merges = (ft_merges){0};
    b->cache = ft_alloc(CACHE_SLOTS * (int64_t)sizeof *b->cache); /* zero: empty, not busy */
    if (!b->cache || !make_raw(b) || !make_pattern(b)) {
        byte_bpe_free(b);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    }
    *out = b;
    return FT_OK;
}
