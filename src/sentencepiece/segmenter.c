/* sentencepiece/segmenter.c - the most probable pieces of a text, as sentencepiece finds them.
 *
 * A unigram model gives each piece a score, the logarithm of its probability; the pieces of a text
 * are those whose scores add up to most (Kudo, arXiv:1804.10959, section 3.2, by Viterbi's
 * algorithm). The library does the same at half the speed, since it makes a list of strings on the
 * way. Ids are the same to the last one, so sums are rounded as the library rounds them, over the
 * whole text: pieces that are as good as others are common (0000, ----), and rounding decides.
 *
 * Models with user-defined pieces, bytes for unknown characters or another treatment of spaces are
 * left to the library. */
#include <string.h>

#include "base/alloc.h"
#include "sentencepiece/spm_file.h"
#include "sentencepiece/sentencepiece.h"

struct ft_segmenter {
    ft_piece_trie pieces;
    float *scores; /* by id */
    int32_t unknown;
    float unknown_score; /* of one character */
    ft_charmap map;
};

/* -- the best path ---------------------------------------------------------------------------- */

/* The best way to a byte of the text: its last piece, where that begins, and the sum of scores. */
typedef struct path {
    int32_t id;
    int32_t from; /* -1: no way yet */
    float score;
} path;

static void offer(path *to, int32_t id, int64_t from, double score)
{
    if (to->from >= 0 && score <= (double)to->score) return;
    *to = (path){id, (int32_t)from, (float)score};
}

static int64_t char_bytes(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Extends the best way to `at` by every piece that begins there. */
static void extend(const ft_segmenter *s, const ft_bytes *text, int64_t at, path *paths)
{
    int64_t one = at + char_bytes((unsigned char)text->data[at]);
    if (one > text->n) one = text->n; /* a text of the map may begin within a character */
    const ft_piece_node *nodes = s->pieces.nodes;
    float till_here = paths[at].score;
    bool covered = false; /* by a piece of one character */
    int64_t n = 0;
    for (int64_t i = at; i < text->n; i++) {
        int64_t next = nodes[n].base ^ (unsigned char)text->data[i];
        if (nodes[next].parent != n) break;
        n = next;
        int32_t id = nodes[n].id;
        if (id == FT_NO_ID) continue;
        offer(&paths[i + 1], id, at, (double)s->scores[id] + (double)till_here);
        covered = covered || i + 1 == one;
    }
    if (!covered) offer(&paths[one], s->unknown, at, (double)(s->unknown_score + till_here));
}

/* Appends the ids on the way to the end, unknown neighbours as one. */
static bool collect(const ft_segmenter *s, const path *paths, int64_t n, ft_ids *ids)
{
    int64_t more = 0;
    int32_t behind = FT_NO_ID;
    for (int64_t at = n; at > 0; at = paths[at].from) {
        int32_t id = paths[at].id;
        more += id != s->unknown || id != behind;
        behind = id;
    }
    if (!ft_ids_make_room(ids, more)) return false;
    ids->n += more;
    behind = FT_NO_ID;
    for (int64_t at = n, to = ids->n; at > 0; at = paths[at].from) {
        int32_t id = paths[at].id;
        if (id != s->unknown || id != behind) ids->data[--to] = id;
        behind = id;
    }
    return true;
}

ft_status ft_segmenter_encode(const ft_segmenter *s, const char *text, int64_t size, ft_ids *ids,
                              ft_error *err)
{
    ft_bytes normal = {0};
    path *paths = NULL;
    bool fits = ft_bytes_make_room(&normal, size) && ft_charmap_apply(&s->map, text, size, &normal);
    if (fits && normal.n > 0) {
        paths = ft_alloc((normal.n + 1) * (int64_t)sizeof *paths);
        fits = paths;
    }
    if (paths) {
        for (int64_t i = 1; i <= normal.n; i++) paths[i].from = -1;
        for (int64_t at = 0; at < normal.n; at += char_bytes((unsigned char)normal.data[at]))
            extend(s, &normal, at, paths);
        fits = collect(s, paths, normal.n, ids);
    }
    ft_free(paths);
    ft_free(normal.data);
    return fits ? FT_OK : ft_ids_no_memory(ids, err);
}

/* -- making ----------------------------------------------------------------------------------- */

void ft_segmenter_free(ft_segmenter *s)
{
    if (!s) return;
    ft_piece_trie_fini(&s->pieces);
    ft_free(s->scores);
    ft_free(s->map.bytes);
    ft_free(s);
}

static ft_scored_piece read_piece(ft_span message)
{
    ft_scored_piece p = {.type = FT_SPM_NORMAL};
    ft_field field;
    while (message.size > 0 && ft_field_take(&message, &field)) {
        if (field.number == FT_SPM_PIECE_TEXT && field.is_bytes) p.text = field.bytes;
        if (field.number == FT_SPM_PIECE_TYPE) p.type = field.value;
        if (field.number == FT_SPM_PIECE_SCORE && field.fixed.size == (int64_t)sizeof p.score)
            memcpy(&p.score, field.fixed.data, sizeof p.score);
    }
    return p;
}

/* Whether the trainer's part says that it is a model of T5's kind. */
static bool trainer_fits(ft_span message)
{
    bool fits = true;
    ft_field field;
    while (message.size > 0 && ft_field_take(&message, &field)) {
        if (field.number == FT_SPM_TRAINER_MODEL_TYPE) fits = fits && field.value == FT_SPM_UNIGRAM;
        if (field.number == FT_SPM_TRAINER_SUFFIX) fits = fits && !field.value;
        if (field.number == FT_SPM_TRAINER_BYTES) fits = fits && !field.value;
    }
    return fits;
}

static bool normalizer_fits(ft_span message, ft_span *map)
{
    bool fits = true;
    ft_field field;
    while (message.size > 0 && ft_field_take(&message, &field)) {
        if (field.number == FT_SPM_NORMALIZER_CHARSMAP && field.is_bytes) *map = field.bytes;
        if (field.number >= FT_SPM_NORMALIZER_ADD_PREFIX &&
            field.number <= FT_SPM_NORMALIZER_ESCAPE)
            fits = fits && field.value;
    }
    return fits;
}

/* Whether the model is one that can be taken over; its number of pieces, and its character map. A
 * field of another type than it has in the format is none, as to the library. */
static bool model_fits(ft_span model, int *n_pieces, ft_span *map)
{
    bool fits = true;
    int n_unknown = 0;
    ft_field field;
    *n_pieces = 0;
    while (model.size > 0 && ft_field_take(&model, &field)) {
        if (!field.is_bytes) continue;
        if (field.number == FT_SPM_PIECES) {
            uint64_t type = read_piece(field.bytes).type;
            fits = fits && (type == FT_SPM_NORMAL || type == FT_SPM_UNKNOWN ||
                            type == FT_SPM_CONTROL || type == FT_SPM_UNUSED);
            n_unknown += type == FT_SPM_UNKNOWN;
            ++*n_pieces;
        }
        if (field.number == FT_SPM_TRAINER) fits = fits && trainer_fits(field.bytes);
        if (field.number == FT_SPM_NORMALIZER) fits = fits && normalizer_fits(field.bytes, map);
    }
    return fits && n_unknown == 1;
}

static bool read_pieces(ft_segmenter *s, ft_span model, int n_pieces)
{
    enum { UNKNOWN_PENALTY = 10 }; /* the library's */
    ft_scored_piece *pieces = ft_alloc((n_pieces + 1) * (int64_t)sizeof *pieces);
    float lowest = 3.4e38f;
    int32_t id = 0;
    int n = 0;
    ft_field field;
    while (pieces && model.size > 0 && ft_field_take(&model, &field)) {
        if (field.number != FT_SPM_PIECES || !field.is_bytes) continue;
        ft_scored_piece p = read_piece(field.bytes);
        p.id = id;
        s->scores[id++] = p.score;
        if (p.type == FT_SPM_UNKNOWN) s->unknown = p.id;
        if (p.type != FT_SPM_NORMAL) continue;
        if (p.score < lowest) lowest = p.score;
        if (p.text.size > 0) pieces[n++] = p;
    }
    s->unknown_score = lowest - UNKNOWN_PENALTY;
    bool fits = pieces && ft_piece_trie_make(&s->pieces, pieces, n);
    ft_free(pieces);
    return fits;
}

/* A copy of the map, which ft_spm_check accepted. */
static bool read_map(ft_segmenter *s, ft_span map)
{
    return map.size == 0 || ft_charmap_copy(&s->map, (const char *)map.data, map.size);
}

ft_status ft_segmenter_new(ft_segmenter **out, const void *bytes, int64_t size, ft_error *err)
{
    ft_span model = {bytes, size}, map = {0};
    int n_pieces;
    *out = NULL;
    if (!model_fits(model, &n_pieces, &map)) return FT_OK;
    ft_segmenter *s = ft_alloc(sizeof *s);
    if (s) s->scores = ft_alloc(n_pieces * (int64_t)sizeof *s->scores);
    if (!s || !s->scores || !read_pieces(s, model, n_pieces) || !read_map(s, map)) {
        ft_segmenter_free(s);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %d pieces", n_pieces);
    }
    *out = s;
    return FT_OK;
}
