/* data/pack.c - a dataset as bytes, and back.
 *
 * Little-endian, no padding: 8 bytes of magic; u32 fields; u32 bytes of an id (2 or 4); u64
 * examples; u64 ids; for each field its name (FT_MAX_NAME bytes, zeros behind) and u32 group; u32
 * length of each field of each example; the ids, each raised by 100 so that -100 is none below 0.
 */
#include "data/data.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "data/internal.h"

static const char magic[8] = "ftset\0\0\1";
enum { HEADER = 8 + 4 + 4 + 8 + 8, FIELD = FT_MAX_NAME + 4, RAISED = -FT_IGNORED_LABEL };

static void put(uint8_t **at, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) *(*at)++ = (uint8_t)(value >> (8 * i));
}

static uint64_t take(const uint8_t **at, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++) value |= (uint64_t) * (*at)++ << (8 * i);
    return value;
}

/* -- packing ---------------------------------------------------------------------------------- */

/* Counts ids; *width is the bytes that each needs. */
static int64_t count_ids(const ft_dataset *dataset, int *width)
{
    int64_t total = 0;
    *width = 2;
    for (int64_t i = 0; i < ft_dataset_size(dataset); i++) {
        for (int f = 0; f < ft_dataset_n_fields(dataset); f++) {
            ft_id_run run = ft_dataset_get(dataset, i, f);
            for (int64_t k = 0; k < run.n; k++)
                if (run.ids[k] > UINT16_MAX - RAISED) *width = 4;
            total += run.n;
        }
    }
    return total;
}

static void put_ids(uint8_t **at, ft_id_run run, int width)
{
    for (int64_t k = 0; k < run.n; k++) put(at, (uint64_t)((int64_t)run.ids[k] + RAISED), width);
}

ft_status ft_dataset_pack(const ft_dataset *dataset, uint8_t **out, int64_t *size, ft_error *err)
{
    int width, fields = ft_dataset_n_fields(dataset);
    int64_t n = ft_dataset_size(dataset), n_ids = count_ids(dataset, &width);
    *size = HEADER + fields * FIELD + 4 * fields * n + width * n_ids;
    *out = ft_alloc(*size);
    if (!*out) return ft_fail(err, FT_NOMEM, "dataset: no memory for %lld bytes", (long long)*size);
    uint8_t *at = *out;
    memcpy(at, magic, sizeof magic);
    at += sizeof magic;
    put(&at, (uint64_t)fields, 4);
    put(&at, (uint64_t)width, 4);
    put(&at, (uint64_t)n, 8);
    put(&at, (uint64_t)n_ids, 8);
    for (int f = 0; f < fields; f++) {
        memcpy(at, ft_dataset_field(dataset, f)->name, FT_MAX_NAME);
        at += FT_MAX_NAME;
        put(&at, (uint64_t)ft_dataset_field(dataset, f)->group, 4);
    }
    for (int64_t i = 0; i < n; i++)
        for (int f = 0; f < fields; f++) put(&at, (uint64_t)ft_dataset_get(dataset, i, f).n, 4);
    for (int64_t i = 0; i < n; i++)
        for (int f = 0; f < fields; f++) put_ids(&at, ft_dataset_get(dataset, i, f), width);
    return FT_OK;
}

/* -- unpacking -------------------------------------------------------------------------------- */

typedef struct packed {
    ft_data_field fields[FT_MAX_FIELDS];
    int n_fields, width;
    int64_t n, n_ids;
    const uint8_t *lengths, *ids;
} packed;

static ft_status bad(ft_error *err, const char *what)
{
    return ft_fail(err, FT_FORMAT, "packed dataset: %s", what);
}

/* Reads everything but lengths and ids; checks that those are there, and nothing behind them. */
static ft_status read_header(const uint8_t *bytes, int64_t size, packed *p, ft_error *err)
{
    if (size < HEADER || memcmp(bytes, magic, sizeof magic) != 0) return bad(err, "no header");
    const uint8_t *at = bytes + sizeof magic;
    uint64_t fields = take(&at, 4), width = take(&at, 4), n = take(&at, 8), n_ids = take(&at, 8);
    if (fields < 1 || fields > FT_MAX_FIELDS || (width != 2 && width != 4))
        return bad(err, "a header of something else");
    /* Both counts are below size, so that nothing below overflows. */
    if (n > (uint64_t)size || n_ids > (uint64_t)size) return bad(err, "counts past its end");
    uint64_t whole = HEADER + fields * FIELD + 4 * fields * n + width * n_ids;
    if (whole != (uint64_t)size) return bad(err, "its size is not what its header says");
    *p = (packed){.n_fields = (int)fields, .width = (int)width, .n = (int64_t)n};
    p->n_ids = (int64_t)n_ids;
    for (int f = 0; f < p->n_fields; f++) {
        memcpy(p->fields[f].name, at, FT_MAX_NAME);
        at += FT_MAX_NAME;
        uint64_t group = take(&at, 4);
        p->fields[f].group = group < FT_MAX_FIELDS ? (int)group : FT_MAX_FIELDS;
    }
    p->lengths = at;
    p->ids = at + 4 * p->n_fields * p->n;
    return FT_OK;
}

/* The next n ids as numbers in `to`; false when one is no id. */
static bool take_ids(packed *p, int32_t *to, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t id = (int64_t)take(&p->ids, p->width) - RAISED;
        if ((id < 0 && id != FT_IGNORED_LABEL) || id > INT32_MAX) return false;
        to[k] = (int32_t)id;
    }
    return true;
}

/* Adds the next example; `room` holds all ids that are left. */
static ft_status add_example(packed *p, ft_dataset *dataset, int32_t *room, ft_error *err)
{
    ft_id_run row[FT_MAX_FIELDS];
    for (int f = 0; f < p->n_fields; f++) {
        int64_t n = (int64_t)take(&p->lengths, 4);
        if (n > p->n_ids) return bad(err, "more ids than its header says");
        if (!take_ids(p, room, n)) return bad(err, "an id that is none");
        p->n_ids -= n;
        row[f] = (ft_id_run){room, n};
        room += n;
    }
    return ft_dataset_add(dataset, row, err);
}

ft_status ft_dataset_unpack(ft_dataset **out, const uint8_t *bytes, int64_t size, ft_error *err)
{
    packed p;
    *out = NULL;
    FT_TRY(read_header(bytes, size, &p, err));
    FT_TRY(ft_dataset_new(out, p.fields, p.n_fields, err));
    ft_status status = FT_OK;
    int32_t *room = ft_alloc((p.n_ids + 1) * (int64_t)sizeof *room);
    if (!room) FT_GO(ft_fail(err, FT_NOMEM, "packed dataset: no memory"));
    for (int64_t i = 0; i < p.n; i++) FT_GO(add_example(&p, *out, room, err));
    if (p.n_ids > 0) FT_GO(bad(err, "fewer ids than its header says"));
done:
    ft_free(room);
    if (status == FT_OK) return FT_OK;
    ft_dataset_free(*out);
    *out = NULL;
    return status;
}
