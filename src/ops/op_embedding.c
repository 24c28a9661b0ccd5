/* ops/op_embedding.c - rows of a table, picked by ids; and the gradient of the table.
 *   ids (...) i32   table (V, D)   ->   y (..., D)
 *
 * The gradient adds the rows of dy into the table's rows in the order of the ids. A team splits it
 * by columns, so that no two threads touch one number and the order stays. The row of the padding
 * id, if there is one, gets no gradient, as with PyTorch's `padding_idx`. */
#include "ops/internal.h"

#include <string.h>

enum { COLUMNS = 64, IDS = 64, ROWS_CLEARED = 64 }; /* of a piece */
enum { PADDING = 0, ROWS = 1 };                     /* attributes; the second is the gradient's */

static const ft_attr_rule grad_attrs[] = {
    {"padding", -1, -1, INT32_MAX, true, "id whose row gets no gradient, -1 for none"},
    {"rows", 1, 1, 1e9, true, "rows of the table"},
    {.name = NULL},
};

typedef struct job {
    float *y;
    const float *x;
    const int32_t *ids;
    int64_t n, D, padding;
    const uint8_t *rows;
} job;

static ft_status check_ids(const char *name, const int32_t *ids, int64_t n, int64_t limit,
                           ft_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= limit)
            return ft_fail(err, FT_INVALID, "%s: id %d at position %lld, expected 0 <= id < %lld",
                           name, (int)ids[i], (long long)i, (long long)limit);
    return FT_OK;
}

static ft_status embedding_shape(const ft_spec *in, const double *attrs, ft_spec *out,
                                 ft_error *err)
{
    (void)attrs;
    FT_TRY(ft_need_dtype("embedding", "ids", &in[0], FT_I32, err));
    FT_TRY(ft_need_dtype("embedding", "table", &in[1], FT_F32, err));
    if (in[1].shape.n_dims != 2)
        return ft_shape_fail(err, "embedding", "table", &in[1], "2 dimensions");
    if (in[0].shape.n_dims >= FT_MAX_DIMS)
        return ft_shape_fail(err, "embedding", "ids", &in[0], "at most 5 dimensions");
    out[0] = ft_spec_of(FT_F32, in[0].shape);
    out[0].shape.dims[out[0].shape.n_dims++] = in[1].shape.dims[1];
    return FT_OK;
}

/* Only the rows picked are read. */
static ft_cost embedding_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    double n = ft_spec_size(&out[0]);
    return (ft_cost){
        .flops = n, .bytes_read = 4.0 * (n + ft_spec_size(&in[0])), .bytes_written = 4.0 * n};
}

static void embedding_grad_rule(ft_builder *b, const ft_grad_site *site)
{
    const double attrs[FT_MAX_ATTRS] = {
        [PADDING] = site->attrs[PADDING], [ROWS] = (double)b->spec(b, site->in[1])->shape.dims[0]};
    if (site->wanted[1])
        site->din[1] = ft_add2(b, &ft_op_embedding_grad, site->dout[0], site->in[0], attrs);
}

static void pick(void *arg, int piece)
{
    const job *j = arg;
    for (int64_t i = (int64_t)piece * IDS; i < ft_piece_end(j->n, IDS, piece); i++)
        memcpy(j->y + i * j->D, j->x + j->ids[i] * j->D, (size_t)j->D * sizeof(float));
}

static ft_status embedding_kernel(const ft_call *call, ft_error *err)
{
    job j = {.y = ft_out(call, 0),
             .x = ft_in(call, 1),
             .ids = ft_ids(call, 0),
             .n = ft_shape_count(&call->in[0].shape),
             .D = call->in[1].shape.dims[1]};
    FT_TRY(check_ids("embedding", j.ids, j.n, call->in[1].shape.dims[0], err));
    ft_team_run(call->team, ft_pieces(j.n, IDS), pick, &j);
    return FT_OK;
}

static ft_status embedding_reference(const ft_call *call, ft_error *err)
{
    const int32_t *ids = ft_ids(call, 0);
    int64_t n = ft_shape_count(&call->in[0].shape), D = call->in[1].shape.dims[1];
    FT_TRY(check_ids("embedding", ids, n, call->in[1].shape.dims[0], err));
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++)
            ft_out64(call, 0)[i * D + d] = ft_in64(call, 1)[ids[i] * D + d];
    return FT_OK;
}

static ft_status grad_shape(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err)
{
    FT_TRY(ft_need_rows("embedding_grad", "dy", &in[0], err));
    ft_spec ids = ft_spec_of(FT_I32, ft_shape_front(&in[0].shape, 1));
    FT_TRY(ft_need_spec("embedding_grad", "ids", &in[1], &ids, err));
    out[0] = ft_spec_of(FT_F32, ft_shape_of((int64_t)attrs[ROWS], ft_dim_back(&in[0].shape, -1)));
    return FT_OK;
}

static ft_cost grad_cost(const ft_spec *in, const ft_spec *out, const double *attrs)
{
    (void)attrs;
    return ft_cost_of(in, 2, out, 1, ft_spec_size(&in[0]));
}

static void scatter(void *arg, int piece)
{
    const job *j = arg;
    int64_t from = (int64_t)piece * COLUMNS, n = ft_piece_end(j->D, COLUMNS, piece) - from;
    ft_map2 add = ft_simd_get()->math->map2[FT_MAP_ADD];
    for (int64_t i = 0; i < j->n; i++) {
        if (j->ids[i] == j->padding) continue;
        float *row = j->y + j->ids[i] * j->D + from;
        add(row, row, j->x + i * j->D + from, n);
    }
}

static void clear(void *arg, int piece)
{
    const job *j = arg; /* n: rows of the table */
    for (int64_t i = (int64_t)piece * ROWS_CLEARED; i < ft_piece_end(j->n, ROWS_CLEARED, piece);
         i++)
        if (!j->rows || j->rows[i]) memset(j->y + i * j->D, 0, (size_t)j->D * sizeof(float));
}

static ft_status grad_kernel(const ft_call *call, ft_error *err)
{
    int64_t rows = call->out[0].shape.dims[0], D = call->out[0].shape.dims[1];
    job all = {.y = ft_out(call, 0), .n = rows, .D = D, .rows = call->rows};
    job j = {.y = ft_out(call, 0),
             .x = ft_in(call, 0),
             .ids = ft_ids(call, 1),
             .n = ft_shape_count(&call->in[1].shape),
             .D = D,
             .padding = (int64_t)call->attrs[PADDING]};
    FT_TRY(check_ids("embedding_grad", j.ids, j.n, rows, err));
    if (!ft_adds(call, 0)) {
        ft_team_run(call->team, ft_pieces(rows, ROWS_CLEARED), clear, &all);
        if (call->rows) memset(call->rows, 0, (size_t)rows);
    }
    for (int64_t i = 0; call->rows && i < j.n; i++) call->rows[j.ids[i]] = 1;
    ft_team_run(call->team, ft_pieces(D, COLUMNS), scatter, &j);
    return FT_OK;
}

/* Rows of other ids were not written. */
static bool grad_finite(const ft_call *call)
{
    const int32_t *ids = ft_ids(call, 1);
    int64_t n = ft_shape_count(&call->in[1].shape), D = call->out[0].shape.dims[1];
    const ft_simd_math *math = ft_simd_get()->math;
    for (int64_t i = 0; i < n; i++)
        if (!math->finite(ft_out(call, 0) + ids[i] * D, D)) return false;
    return true;
}

static ft_status grad_reference(const ft_call *call, ft_error *err)
{
    const int32_t *ids = ft_ids(call, 1);
    double *dtable = ft_out64(call, 0);
    int64_t n = ft_shape_count(&call->in[1].shape), D = call->out[0].shape.dims[1];
    FT_TRY(check_ids("embedding_grad", ids, n, call->out[0].shape.dims[0], err));
    for (int64_t i = 0; i < call->out[0].shape.dims[0] * D; i++) dtable[i] = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D && ids[i] != (int)call->attrs[PADDING]; d++)
            dtable[ids[i] * D + d] += ft_in64(call, 0)[i * D + d];
    return FT_OK;
}

static const ft_sample samples[] = {
    {.in = {{FT_I32, {2, {3, 4}}}, {FT_F32, {2, {11, 33}}}}, .attrs = {-1}, .id_limit = 11},
    {.in = {{FT_I32, {1, {7}}}, {FT_F32, {2, {1, 1}}}}, .attrs = {-1}, .id_limit = 1},
    {.in = {{FT_I32, {2, {1, 130}}}, {FT_F32, {2, {50, 1000}}}}, .attrs = {-1}, .id_limit = 50},
    {.in = {{FT_I32, {1, {0}}}, {FT_F32, {2, {5, 8}}}}, .attrs = {-1}, .id_limit = 5},
};

static const ft_sample grad_samples[] = {
    {.in = {{FT_F32, {3, {3, 4, 33}}}, {FT_I32, {2, {3, 4}}}},
     .attrs = {-1, 11},
     .tolerance = 1e-6,
     .id_limit = 11},
    {.in = {{FT_F32, {2, {60, 70}}}, {FT_I32, {1, {60}}}},
     .attrs = {3, 7},
     .tolerance = 1e-6,
     .id_limit = 7},
    {.in = {{FT_F32, {2, {7, 1}}}, {FT_I32, {1, {7}}}},
     .attrs = {-1, 1},
     .tolerance = 1e-6,
     .id_limit = 1},
    {.in = {{FT_F32, {3, {1, 130, 1000}}}, {FT_I32, {2, {1, 130}}}},
     .attrs = {-1, 50},
     .tolerance = 1e-6,
     .id_limit = 50},
    {.in = {{FT_F32, {2, {2300, 3}}},
            {FT_I32, {1, {2300}}}}, /* in more pieces than a block lists */
     .attrs = {-1, 2},
     .tolerance = 1e-5,
     .id_limit = 2},
    {.in = {{FT_F32, {2, {200, 12}}}, {FT_I32, {1, {200}}}}, /* ids that come often */
     .attrs = {0, 3},
     .tolerance = 1e-6,
     .id_limit = 3},
    {.in = {{FT_F32, {2, {0, 8}}}, {FT_I32, {1, {0}}}}, .attrs = {-1, 5}, .id_limit = 5},
};

const ft_op ft_op_embedding = {
    .name = "embedding",
    .doc = "y = table[ids]; ids (...) i32, table (V, D) -> y (..., D)",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_out = 1u,
    .attrs = (const ft_attr_rule[]){{"padding", -1, -1, INT32_MAX, true,
                                     "id whose row gets no gradient, -1 for none"},
                                    {.name = NULL}},
    .shape = embedding_shape,
    .cost = embedding_cost,
    .grad = embedding_grad_rule,
    .kernel = embedding_kernel,
    .reference = embedding_reference,
    .samples = samples,
    .n_samples = sizeof samples / sizeof *samples,
};

const ft_op ft_op_embedding_grad = {
    .name = "embedding_grad",
    .doc = "dtable[id] = sum of the rows of dy with that id; dy (..., D), ids (...) i32 -> "
           "(rows, D)",
    .min_in = 2,
    .n_in = 2,
    .n_out = 1,
    .half_in = 1u,
    .attrs = grad_attrs,
    .shape = grad_shape,
    .cost = grad_cost,
    .kernel = grad_kernel,
    .reference = grad_reference,
    .finite = grad_finite,
    .accumulates = 1,
    .by_rows = true,
    .samples = grad_samples,
    .n_samples = sizeof grad_samples / sizeof *grad_samples,
};
