/* tokens/tokenizer.c - text into ids and back: what all kinds of tokenizers have in common.
 *
 * No kind ever sees special tokens: they are split out of the text first, and each stretch between
 * them is encoded alone. So a stretch gets sentencepiece's leading space of its own and loses its
 * own outer blanks, as in the T5 tokenizers of transformers (legacy behaviour). */
#include "tokens/tokens.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokens/internal.h"

enum { MAX_TEXT = INT32_MAX / 4 }; /* bytes; sentencepiece counts normalised bytes in an int */

/* What a special token may be for. */
static const char *const roles[] = {"pad", "unk", "bos", "eos", "cls", "sep", "mask"};
enum { N_ROLES = sizeof roles / sizeof *roles };

struct ft_tokenizer {
    const ft_tokenizer_kind_row *kind;
    void *model;
    ft_specials specials;
    ft_specials normalized; /* those that are matched in normalized text, as it has them */
    int size;
    int n_reserved;           /* ids below this one that have no piece are no text */
    int32_t by_role[N_ROLES]; /* what a file said; else FT_NO_ID */
    ft_templates templates;   /* single.n 0: the kind's form */
};

/* Appends text as the kind normalizes it. */
static ft_status normalize(const ft_tokenizer *tokenizer, ft_stretch text, ft_bytes *out,
                           int64_t *head, ft_error *err)
{
    const ft_tokenizer_kind_row *kind = tokenizer->kind;
    *head = text.head;
    if (kind->normalize) return kind->normalize(tokenizer->model, text, out, head, err);
    return ft_bytes_add(out, text.bytes, text.size) ? FT_OK : ft_bytes_no_memory(out, err);
}

/* Enters the special tokens that are matched in normalized text. */
static ft_status add_normalized(ft_tokenizer *tokenizer, ft_error *err)
{
    const ft_specials *all = &tokenizer->specials;
    ft_bytes text = {0};
    ft_status status = FT_OK;
    for (int32_t id = 0; id < all->texts.n; id++) {
        ft_piece piece = ft_specials_get(all, id);
        if (!piece.text || !(all->flags[id] & FT_SPECIAL_NORMALIZED)) continue;
        text.n = 0;
        ft_stretch whole = {piece.text, piece.size, 0};
        FT_GO(normalize(tokenizer, whole, &text, &(int64_t){0}, err));
        int flags = all->flags[id] & ~FT_SPECIAL_NORMALIZED;
        if (text.n > 0)
            FT_GO(ft_specials_add(&tokenizer->normalized, text.data, text.n, id, flags, err));
    }
done:
    ft_free(text.data);
    return status;
}

ft_status ft_tokenizer_new(ft_tokenizer **out, const ft_tokenizer_kind_row *kind, void *model,
                           ft_specials *specials, ft_error *err)
{
    *out = NULL;
    ft_tokenizer *tokenizer = ft_alloc(sizeof *tokenizer);
    if (!tokenizer) {
        kind->free(model);
        ft_specials_fini(specials);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory");
    }
    int n_model = kind->size(model), n_special = specials->texts.n;
    *tokenizer = (ft_tokenizer){.kind = kind,
                                .model = model,
                                .specials = *specials,
                                .size = n_model > n_special ? n_model : n_special};
    for (int i = 0; i < N_ROLES; i++) tokenizer->by_role[i] = FT_NO_ID;
    *specials = (ft_specials){0};
    ft_status status = ft_tokenizer_check(tokenizer, err);
    if (status == FT_OK) status = add_normalized(tokenizer, err);
    if (status == FT_OK)
        *out = tokenizer;
    else
        ft_tokenizer_free(tokenizer);
    return status;
}

ft_status ft_tokenizer_check(const ft_tokenizer *tokenizer, ft_error *err)
{
    for (int32_t id = tokenizer->kind->size(tokenizer->model); id < tokenizer->size; id++)
        if (!ft_specials_get(&tokenizer->specials, id).text)
            return ft_fail(err, FT_FORMAT, "no piece has id %d, and another one has %d", (int)id,
                           tokenizer->size - 1);
    return FT_OK;
}

void ft_tokenizer_free(ft_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    tokenizer->kind->free(tokenizer->model);
    ft_specials_fini(&tokenizer->specials);
    ft_specials_fini(&tokenizer->normalized);
    ft_free(tokenizer);
}

/* -- tokens of other files -------------------------------------------------------------------- */

/* The number of a role, N_ROLES when there is none of that name. */
static int find_role(const char *name)
{
    int i = 0;
    while (i < N_ROLES && strcmp(roles[i], name) != 0) i++;
    return i;
}

/* The id of a text that is special, or else a piece. */
static int32_t find_text(const ft_tokenizer *tokenizer, ft_slice text)
{
    int32_t id = ft_vocabulary_find(&tokenizer->specials.texts, text.bytes, text.size);
    return id != FT_NO_ID ? id : tokenizer->kind->find(tokenizer->model, text.bytes, text.size);
}

ft_status ft_tokenizer_add_text(ft_tokenizer *tokenizer, ft_slice text, int32_t id, int flags,
                                ft_error *err)
{
    int32_t known = find_text(tokenizer, text);
    if (known != id && id < tokenizer->kind->size(tokenizer->model))
        return ft_fail(err, FT_FORMAT, "added token '%.64s' has id %d, which is that of '%.64s'",
                       text.bytes, (int)id, ft_tokenizer_piece(tokenizer, id));
    if (ft_specials_get(&tokenizer->specials, id).text && known == id) return FT_OK;
    FT_TRY(ft_specials_add(&tokenizer->specials, text.bytes, text.size, id, flags, err));
    if (id >= tokenizer->size) tokenizer->size = id + 1;
    return FT_OK;
}

ft_status ft_tokenizer_set_special(ft_tokenizer *tokenizer, ft_slice text, int flags,
                                   const char *role, ft_error *err)
{
    int32_t id = find_text(tokenizer, text);
    int number = find_role(role);
    if (id == FT_NO_ID) return FT_OK;
    if (number < N_ROLES) tokenizer->by_role[number] = id;
    int before = 0;
    if (!ft_specials_get(&tokenizer->specials, id).text)
        FT_TRY(ft_specials_add(&tokenizer->specials, text.bytes, text.size, id, 0, err));
    else if (flags & FT_SPECIAL_AS_BEFORE)
        before = tokenizer->specials.flags[id] & ~FT_SPECIAL_CASELESS;
    tokenizer->specials.flags[id] =
        (unsigned char)(before | FT_SPECIAL_HIDDEN | (flags & ~FT_SPECIAL_AS_BEFORE));
    return FT_OK;
}

const char *ft_tokenizer_kind(const ft_tokenizer *tokenizer)
{
    return tokenizer->kind->name;
}

int ft_tokenizer_size(const ft_tokenizer *tokenizer)
{
    return tokenizer->size;
}

void ft_tokenizer_reserve(ft_tokenizer *tokenizer, int n)
{
    tokenizer->n_reserved = n;
}

const char *ft_tokenizer_piece(const ft_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || id >= tokenizer->size) return NULL;
    const char *special = ft_specials_get(&tokenizer->specials, id).text;
    return special ? special : tokenizer->kind->piece(tokenizer->model, id);
}

int32_t ft_tokenizer_special(const ft_tokenizer *tokenizer, const char *name)
{
    int role = find_role(name);
    if (role < N_ROLES && tokenizer->by_role[role] != FT_NO_ID) return tokenizer->by_role[role];
    const ft_special_name *row = tokenizer->kind->specials;
    while (row->name && strcmp(row->name, name) != 0) row++;
    for (int i = 0; row->name && i < 3 && row->texts[i]; i++) {
        const char *text = row->texts[i];
        int32_t id = ft_vocabulary_find(&tokenizer->specials.texts, text, (int64_t)strlen(text));
        if (id != FT_NO_ID) return id;
    }
    return FT_NO_ID;
}

const ft_basic_options *ft_tokenizer_basic(const ft_tokenizer *tokenizer)
{
    return tokenizer->kind == &ft_kind_wordpiece ? ft_wordpiece_basic(tokenizer->model) : NULL;
}

/* -- encoding --------------------------------------------------------------------------------- */

ft_status ft_tokens_check(const char *text, int64_t size, ft_error *err)
{
    if (size < 0 || size > MAX_TEXT)
        return ft_fail(err, FT_INVALID, "tokenizer: text of %lld bytes, expected at most %d",
                       (long long)size, MAX_TEXT);
    int64_t bad = ft_utf8_check(text, size);
    if (bad >= 0)
        return ft_fail(err, FT_FORMAT, "text is not UTF-8: byte 0x%02x at position %lld",
                       (unsigned char)text[bad], (long long)bad);
    return FT_OK;
}

/* Appends the ids of a stretch of text. */
typedef ft_status encode_fn(ft_ids *list, const ft_tokenizer *tokenizer, ft_stretch text,
                            ft_error *err);

/* Appends the ids of special tokens, and of the stretches between them. */
static ft_status encode_around(ft_ids *list, const ft_tokenizer *tokenizer,
                               const ft_specials *specials, ft_stretch text, encode_fn *encode,
                               ft_error *err)
{
    for (int64_t from = 0; from < text.size;) {
        ft_match special = ft_specials_find(specials, text.bytes, text.size, from);
        ft_stretch stretch = ft_stretch_part(text, from, special.from);
        if (stretch.size > 0) FT_TRY(encode(list, tokenizer, stretch, err));
        if (special.id != FT_NO_ID && !ft_ids_add(list, &special.id, 1))
            return ft_ids_no_memory(list, err);
        from = special.to;
    }
    return FT_OK;
}

static ft_status encode_pieces(ft_ids *list, const ft_tokenizer *tokenizer, ft_stretch text,
                               ft_error *err)
{
    return tokenizer->kind->encode(tokenizer->model, text, list, err);
}

/* A stretch in which special tokens may still be found once it is normalized. */
static ft_status encode_stretch(ft_ids *list, const ft_tokenizer *tokenizer, ft_stretch text,
                                ft_error *err)
{
    bool looks = tokenizer->normalized.texts.n > 0;
    if (!looks && !tokenizer->kind->encodes_normalized)
        return encode_pieces(list, tokenizer, text, err);
    ft_bytes plain = {0};
    int64_t head;
    ft_status status = normalize(tokenizer, text, &plain, &head, err);
    if (status == FT_OK)
        status = encode_around(list, tokenizer, &tokenizer->normalized,
                               (ft_stretch){plain.data, plain.n, head}, encode_pieces, err);
    ft_free(plain.data);
    return status;
}

static ft_status encode_into(ft_ids *list, const ft_tokenizer *tokenizer, const char *text,
                             int64_t size, ft_error *err)
{
    FT_TRY(ft_tokens_check(text, size, err));
    int64_t head = 0;
    while (head < size && (head == 0 || ((unsigned char)text[head] & 0xC0) == 0x80)) head++;
    return encode_around(list, tokenizer, &tokenizer->specials, (ft_stretch){text, size, head},
                         encode_stretch, err);
}

ft_status ft_tokenizer_encode(const ft_tokenizer *tokenizer, const char *text, int64_t size,
                              int32_t **ids, int64_t *n, ft_error *err)
{
    *ids = NULL;
    *n = 0;
    ft_ids list = {0};
    if (!ft_ids_add(&list, NULL, 0)) /* a block even when there are no ids */
        return ft_ids_no_memory(&list, err);
    ft_status status = encode_into(&list, tokenizer, text, size, err);
    if (status != FT_OK) {
        ft_free(list.data);
        return status;
    }
    *ids = list.data;
    *n = list.n;
    return FT_OK;
}

static ft_status add_special(ft_ids *list, const ft_tokenizer *tokenizer, const char *name,
                             ft_error *err)
{
    if (!name) return FT_OK;
    int32_t id = ft_tokenizer_special(tokenizer, name);
    if (id == FT_NO_ID)
        return ft_fail(err, FT_NOT_FOUND, "tokenizer: the vocabulary has no %s token", name);
    return ft_ids_add(list, &id, 1) ? FT_OK : ft_ids_no_memory(list, err);
}

void ft_tokenizer_set_templates(ft_tokenizer *tokenizer, const ft_templates *templates)
{
    tokenizer->templates = *templates;
}

/* Fills the segments of what was appended last. */
static ft_status mark_segment(ft_ids *segments, const ft_ids *list, int32_t segment, ft_error *err)
{
    while (segments->n < list->n)
        if (!ft_ids_add(segments, &segment, 1)) return ft_ids_no_memory(list, err);
    return FT_OK;
}

/* Appends what a template says. */
static ft_status encode_template(ft_ids *list, ft_ids *segments, const ft_tokenizer *tokenizer,
                                 const ft_template *form, ft_slice a, const ft_slice *b,
                                 ft_error *err)
{
    for (int i = 0; i < form->n; i++) {
        int32_t id = form->items[i].id;
        ft_slice text = id == FT_TEMPLATE_B ? *b : a;
        if (id < 0)
            FT_TRY(encode_into(list, tokenizer, text.bytes, text.size, err));
        else if (!ft_ids_add(list, &id, 1))
            return ft_ids_no_memory(list, err);
        FT_TRY(mark_segment(segments, list, form->items[i].segment, err));
    }
    return FT_OK;
}

/* Appends the pair in the kind's own form. */
static ft_status encode_form(ft_ids *list, ft_ids *segments, const ft_tokenizer *tokenizer,
                             ft_slice a, const ft_slice *b, ft_error *err)
{
    const ft_pair_form *form = &tokenizer->kind->pair;
    FT_TRY(add_special(list, tokenizer, form->first, err));
    FT_TRY(encode_into(list, tokenizer, a.bytes, a.size, err));
    FT_TRY(add_special(list, tokenizer, form->between, err));
    FT_TRY(mark_segment(segments, list, 0, err));
    if (!b) return FT_OK;
    FT_TRY(encode_into(list, tokenizer, b->bytes, b->size, err));
    FT_TRY(add_special(list, tokenizer, form->last, err));
    return mark_segment(segments, list, form->second_segment, err);
}

ft_status ft_tokenizer_encode_pair(const ft_tokenizer *tokenizer, ft_slice a, const ft_slice *b,
                                   int32_t **ids, int32_t **segments, int64_t *n, ft_error *err)
{
    const ft_template *form = b ? &tokenizer->templates.pair : &tokenizer->templates.single;
    ft_ids list = {0}, marks = {0};
    ft_status status = FT_OK;
    *ids = *segments = NULL;
    *n = 0;
    if (!ft_ids_add(&list, NULL, 0) || !ft_ids_add(&marks, NULL, 0))
        FT_GO(ft_ids_no_memory(&list, err));
    if (form->n > 0)
        FT_GO(encode_template(&list, &marks, tokenizer, form, a, b, err));
    else
        FT_GO(encode_form(&list, &marks, tokenizer, a, b, err));
    *ids = list.data;
    *segments = marks.data;
    *n = list.n;
done:
    if (status != FT_OK) {
        ft_free(list.data);
        ft_free(marks.data);
    }
    return status;
}

/* -- decoding --------------------------------------------------------------------------------- */

static ft_status decode_special(ft_bytes *text, const ft_tokenizer *tokenizer, int32_t id,
                                ft_error *err)
{
    ft_piece piece = ft_specials_get(&tokenizer->specials, id);
    const char *separator = text->n > 0 ? tokenizer->kind->separator : "";
    if (!ft_bytes_add(text, separator, (int64_t)strlen(separator)) ||
        !ft_bytes_add(text, piece.text, piece.size))
        return ft_bytes_no_memory(text, err);
    return FT_OK;
}

static bool is_special(const ft_tokenizer *tokenizer, int32_t id)
{
    return ft_specials_get(&tokenizer->specials, id).text;
}

static ft_status decode_into(ft_bytes *text, const ft_tokenizer *tokenizer, const int32_t *ids,
                             int64_t n, bool skip_special, ft_error *err)
{
    for (int64_t from = 0, to = 0; from < n; from = to) {
        to = from + 1;
        if (ids[from] >= tokenizer->size) continue;
        if (is_special(tokenizer, ids[from])) {
            if (!skip_special || !ft_specials_hidden(&tokenizer->specials, ids[from]))
                FT_TRY(decode_special(text, tokenizer, ids[from], err));
            continue;
        }
        while (to < n && ids[to] < tokenizer->size && !is_special(tokenizer, ids[to])) to++;
        FT_TRY(tokenizer->kind->decode(tokenizer->model, ids + from, to - from, text, err));
    }
    return FT_OK;
}

/* Bytes of the ill-formed sequence at p that one U+FFFD stands for: what begins a well-formed one
 * goes together (Unicode 15, section 3.9, "substitution of maximal subparts"). */
static int64_t bad_size(const char *p, int64_t left)
{
    char whole[4];
    for (int64_t n = left < 3 ? left : 3; n > 1; n--) {
        memcpy(whole, p, (size_t)n);
        for (int64_t rest = 1; n + rest <= 4; rest++) {
            memset(whole + n, 0x80, (size_t)rest);
            if (ft_utf8_check(whole, n + rest) < 0) return n;
        }
    }
    return 1;
}

/* The text with what is not UTF-8 replaced by U+FFFD; takes `text` over. */
static ft_status make_valid(ft_bytes *out, ft_bytes text, ft_error *err)
{
    *out = (ft_bytes){0};
    bool fits = true;
    for (int64_t from = 0; fits && from < text.n;) {
        int64_t bad = ft_utf8_check(text.data + from, text.n - from);
        int64_t good = bad < 0 ? text.n - from : bad;
        if (from == 0 && bad < 0) {
            *out = text;
            return FT_OK;
        }
        fits = ft_bytes_add(out, text.data + from, good);
        from += good;
        if (bad < 0 || !fits) continue;
        fits = ft_bytes_add(out, "\xEF\xBF\xBD", 3);
        from += bad_size(text.data + from, text.n - from);
    }
    if (fits && !out->data) fits = ft_bytes_add(out, "", 0);
    ft_free(text.data);
    if (fits) return FT_OK;
    ft_free(out->data);
    return ft_bytes_no_memory(out, err);
}

ft_status ft_tokenizer_decode(const ft_tokenizer *tokenizer, const int32_t *ids, int64_t n,
                              bool skip_special, char **text, int64_t *size, ft_error *err)
{
    int end = tokenizer->n_reserved > tokenizer->size ? tokenizer->n_reserved : tokenizer->size;
    *text = NULL;
    *size = 0;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= end)
            return ft_fail(err, FT_INVALID, "tokenizer: id %d at position %lld, expected 0 to %d",
                           (int)ids[i], (long long)i, end - 1);
    ft_bytes bytes = {0}, valid;
    if (!ft_bytes_add(&bytes, "", 0)) return ft_bytes_no_memory(&bytes, err);
    ft_status status = decode_into(&bytes, tokenizer, ids, n, skip_special, err);
    if (status != FT_OK) {
        ft_free(bytes.data);
        return status;
    }
    FT_TRY(make_valid(&valid, bytes, err));
    *text = valid.data;
    *size = valid.n;
    return FT_OK;
}

/* -- words ------------------------------------------------------------------------------------ */

void ft_strings_fini(ft_strings *strings)
{
    ft_free(strings->bytes);
    ft_free(strings->ends);
    *strings = (ft_strings){0};
}

typedef struct word_list {
    ft_bytes bytes;
    int64_t *ends, n, capacity;
} word_list;

static bool add_word(void *context, const char *word, int64_t n, int64_t n_chars)
{
    (void)n_chars;
    word_list *list = context;
    if (list->n >= list->capacity) {
        int64_t capacity = 2 * list->n + 16;
        int64_t *ends = ft_realloc(list->ends, capacity * (int64_t)sizeof *ends);
        if (!ends) return false;
        list->ends = ends;
        list->capacity = capacity;
    }
    if (!ft_bytes_add(&list->bytes, word, n)) return false;
    list->ends[list->n++] = list->bytes.n;
    return true;
}

ft_status ft_basic_split(const char *text, int64_t size, const ft_basic_options *options,
                         ft_strings *out, ft_error *err)
{
    *out = (ft_strings){0};
    FT_TRY(ft_tokens_check(text, size, err));
    word_list list = {0};
    bool fits = ft_basic_words(text, size, options, add_word, &list);
    *out = (ft_strings){list.bytes.data, list.ends, list.n};
    if (fits) return FT_OK;
    ft_strings_fini(out);
    return ft_fail(err, FT_NOMEM, "tokenizer: no memory for words");
}
