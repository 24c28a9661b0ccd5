/* sentencepiece/lattice.c - the most probable pieces of a text, as the library `tokenizers` finds
 * them.
 *
 * The rule is that of segmenter.c. What differs decides between paths that are as good as each
 * other, and what is unknown: sums are of doubles, every piece is found in text, special ones too,
 * and unknown neighbours are one, which is the piece of their text where there is one. */
#include <string.h>

#include "base/alloc.h"
#include "sentencepiece/sentencepiece.h"
#include "sentencepiece/spm_file.h"

enum { N_BYTES = 256 };

struct ft_lattice {
    ft_piece_trie pieces;
    double *scores; /* by id */
    int32_t unknown;
    double unknown_score;   /* of one character */
    int32_t bytes[N_BYTES]; /* ids of bytes, or FT_NO_ID */
};

/* The best way to a byte of the text: its last piece, where that begins, and the sum of scores. */
typedef struct path {
    double score;
    int32_t id;
    int32_t from; /* -1: no way yet */
} path;

static void offer(path *to, int32_t id, int64_t from, double score)
{
    if (to->from < 0 || score > to->score) *to = (path){score, id, (int32_t)from};
}

static int64_t char_bytes(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* The piece of a text, or FT_NO_ID. */
static int32_t find(const ft_lattice *l, const char *text, int64_t size)
{
    const ft_piece_node *nodes = l->pieces.nodes;
    int64_t n = 0;
    for (int64_t i = 0; i < size; i++) {
        int64_t next = nodes[n].base ^ (unsigned char)text[i];
        if (nodes[next].parent != n) return FT_NO_ID;
        n = next;
    }
    return n == 0 ? FT_NO_ID : nodes[n].id;
}

/* Extends the best way to `at` by every piece that begins there; false: there is none, and nothing
 * unknown either. */
static bool extend(const ft_lattice *l, const char *text, int64_t size, int64_t at, path *paths)
{
    int64_t one = at + char_bytes((unsigned char)text[at]), n = 0;
    const ft_piece_node *nodes = l->pieces.nodes;
    double till_here = paths[at].score;
    bool covered = false; /* by a piece of one character */
    for (int64_t i = at; i < size; i++) {
        int64_t next = nodes[n].base ^ (unsigned char)text[i];
        if (nodes[next].parent != n) break;
        n = next;
        int32_t id = nodes[n].id;
        if (id == FT_NO_ID) continue;
        offer(&paths[i + 1], id, at, l->scores[id] + till_here);
        covered = covered || i + 1 == one;
    }
    if (covered) return true;
    if (l->unknown == FT_NO_ID) return false;
    offer(&paths[one], l->unknown, at, l->unknown_score + till_here);
    return true;
}

/* Appends, from the last one on, the ids of a text that is unknown. */
static bool put_unknown(const ft_lattice *l, const char *text, int64_t size, ft_ids *ids)
{
    int32_t id = find(l, text, size);
    if (id != FT_NO_ID) return ft_ids_add(ids, &id, 1);
    for (int64_t i = 0; i < size; i++)
        if (l->bytes[(unsigned char)text[i]] == FT_NO_ID) return ft_ids_add(ids, &l->unknown, 1);
    for (int64_t i = size - 1; i >= 0; i--)
        if (!ft_ids_add(ids, &l->bytes[(unsigned char)text[i]], 1)) return false;
    return true;
}

/* Appends the ids on the way to the end. */
static bool collect(const ft_lattice *l, const char *text, const path *paths, int64_t n,
                    ft_ids *ids)
{
    int64_t start = ids->n;
    bool fits = true;
    for (int64_t end = n, from; fits && end > 0; end = from) {
        int32_t id = paths[end].id;
        from = paths[end].from;
        while (id == l->unknown && from > 0 && paths[from].id == id) from = paths[from].from;
        fits = id == l->unknown ? put_unknown(l, text + from, end - from, ids)
                                : ft_ids_add(ids, &id, 1);
    }
    for (int64_t i = start, j = ids->n - 1; i < j; i++, j--) {
        int32_t id = ids->data[i];
        ids->data[i] = ids->data[j];
        ids->data[j] = id;
    }
    return fits;
}

ft_status ft_lattice_encode(const ft_lattice *l, const char *text, int64_t size,
                            ft_lattice_space *space, ft_ids *ids, ft_error *err)
{
    int64_t bytes = (size + 1) * (int64_t)sizeof(path);
    if (bytes > space->capacity) {
        void *data = ft_realloc(space->data, 2 * bytes);
        if (!data) return ft_ids_no_memory(ids, err);
        *space = (ft_lattice_space){data, 2 * bytes};
    }
    path *paths = space->data;
    paths[0] = (path){.id = FT_NO_ID};
    for (int64_t i = 1; i <= size; i++) paths[i].from = -1;
    for (int64_t at = 0; at < size; at += char_bytes((unsigned char)text[at]))
        if (!extend(l, text, size, at, paths))
            return ft_fail(err, FT_FORMAT,
                           "no piece has the character at '%.16s', and no piece is "
                           "the unknown one (unk_id)",
                           text + at);
    return collect(l, text, paths, size, ids) ? FT_OK : ft_ids_no_memory(ids, err);
}

/* -- making ----------------------------------------------------------------------------------- */

void ft_lattice_free(ft_lattice *l)
{
    if (!l) return;
    ft_piece_trie_fini(&l->pieces);
    ft_free(l->scores);
    ft_free(l);
}

/* The pieces <0x00> to <0xFF>. */
static void find_bytes(ft_lattice *l)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int i = 0; i < N_BYTES; i++) {
        char piece[] = {'<', '0', 'x', digits[i / 16], digits[i % 16], '>'};
        l->bytes[i] = find(l, piece, sizeof piece);
    }
}

static bool add_pieces(ft_lattice *l, const ft_lattice_piece *pieces, int32_t n)
{
    enum { UNKNOWN_PENALTY = 10 }; /* the library's */
    ft_scored_piece *list = ft_alloc((n + 1) * (int64_t)sizeof *list);
    double lowest = 0;
    int count = 0;
    for (int32_t id = 0; list && id < n; id++) {
        l->scores[id] = pieces[id].score;
        if (id == 0 || pieces[id].score < lowest) lowest = pieces[id].score;
        if (pieces[id].size == 0) continue;
        list[count++] = (ft_scored_piece){
            .text = {(const unsigned char *)pieces[id].text, pieces[id].size}, .id = id};
    }
    l->unknown_score = lowest - UNKNOWN_PENALTY;
    bool fits = list && ft_piece_trie_make(&l->pieces, list, count);
    ft_free(list);
    return fits;
}

ft_status ft_lattice_new(ft_lattice **out, const ft_lattice_piece *pieces, int32_t n,
                         ft_lattice_options options, ft_error *err)
{
    *out = NULL;
    ft_lattice *l = ft_alloc(sizeof *l);
    if (l) l->scores = ft_alloc(n * (int64_t)sizeof *l->scores);
    if (!l || !l->scores || !add_pieces(l, pieces, n)) {
        ft_lattice_free(l);
        return ft_fail(err, FT_NOMEM, "tokenizer: no memory for %d pieces", (int)n);
    }
    l->unknown = options.unknown;
    memset(l->bytes, 0xFF, sizeof l->bytes);
    if (options.byte_fallback) find_bytes(l);
    *out = l;
    return FT_OK;
}
