/* test/test_ops.c - the walk of the operator table: a row is tested by being a row.
 *
 * For every row and every one of its samples: the shape rule and its refusals, the kernel against
 * the reference, teams, guards, unchanged inputs, accumulation, packing, and no
 * allocation. The gradients are in test_ops_grad.c. */
#include "check.h"
#include "op_case.h"

#include "base/alloc.h"

static bool named(const ft_op *op, const ft_error *err)
{
    return strstr(err->message, op->name) != NULL;
}

static void say(const ft_op *op, const ft_sample *sample, const char *what)
{
    fprintf(stderr, "  in row %s, sample %d: %s\n", op->name, (int)(sample - op->samples), what);
}

/* -- what a row consists of ------------------------------------------------------------------- */

/* Rows without a gradient: gradients themselves, those whose outputs carry none, and what the list
 * names. */
static bool without_gradient(const ft_op *op)
{
    static const char *const names[] = {"spread", "sum_to", "one", "cache_append"};
    if (op->no_grad_out == (1u << op->n_out) - 1) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return strstr(op->name, "_grad") != NULL;
}

static void test_parts(void)
{
    for (const ft_op *const *row = ft_ops; *row; row++) {
        const ft_op *op = *row;
        bool whole = op->doc && op->shape && op->cost && op->kernel && op->reference &&
                     op->samples && op->n_samples > 0;
        bool sizes = op->n_in <= FT_MAX_IN && op->min_in <= op->n_in && op->n_out >= 1 &&
                     op->n_out <= FT_MAX_OUT && ft_op_attr_count(op) <= FT_MAX_ATTRS;
        bool packs = !op->pack_input || (op->pack && op->pack_bytes && op->pack_kind);
        CHECK(ft_op_kernel(op, FT_DEVICE_CPU, FT_F32) == op->kernel);
        CHECK(!ft_op_kernel(op, FT_DEVICE_CPU, FT_I32) && !ft_op_kernel(op, FT_DEVICE_SIM, FT_F32));
        if (!CHECK(whole && sizes && packs && ft_op_find(op->name) == op))
            fprintf(stderr, "  row %s\n", op->name);
        if (!CHECK((op->grad != NULL) != without_gradient(op)))
            fprintf(stderr, "  row %s: gradient\n", op->name);
        double attrs[FT_MAX_ATTRS];
        ft_error err;
        CHECK_STATUS(ft_op_attrs(op, NULL, NULL, 0, attrs, &err), FT_OK);
        for (int i = 0; i < ft_op_attr_count(op); i++) {
            const ft_attr_rule *rule = &op->attrs[i];
            CHECK(rule->help && rule->preset >= rule->min && rule->preset <= rule->max);
            double low = rule->min - 1.0 - fabs(rule->min), nan = (double)NAN;
            CHECK_STATUS(ft_op_attrs(op, &rule->name, &low, 1, attrs, &err), FT_INVALID);
            CHECK(named(op, &err) && strstr(err.message, rule->name));
            CHECK_STATUS(ft_op_attrs(op, &rule->name, &nan, 1, attrs, &err), FT_INVALID);
        }
        CHECK_STATUS(ft_op_attrs(op, (const char *[]){"nonsense"}, &(double){1}, 1, attrs, &err),
                     FT_INVALID);
        CHECK(named(op, &err) && strstr(err.message, "nonsense"));
    }
    CHECK(ft_op_find("no such row") == NULL);
}

/* -- shape rules ------------------------------------------------------------------------------ */

/* Tries one changed set of inputs; returns whether it was refused (naming the row). */
static int refuses(const ft_op *op, const ft_spec *in, int n_in, const double *attrs)
{
    ft_spec out[FT_MAX_OUT];
    ft_error err = {0};
    ft_status status = ft_op_shape(op, in, n_in, attrs, out, &err);
    if (status != FT_OK && !CHECK(status == FT_SHAPE && named(op, &err)))
        fprintf(stderr, "  row %s: %s\n", op->name, err.message);
    return status != FT_OK;
}

static void check_numbers(const ft_op *op, const ft_sample *s)
{
    ft_spec in[FT_MAX_IN + 1] = {{0}};
    memcpy(in, s->in, sizeof s->in);
    if (op->min_in > 0) CHECK(refuses(op, in, op->min_in - 1, s->attrs));
    CHECK(refuses(op, in, op->n_in + 1, s->attrs));
    for (int i = 0; i < op->min_in; i++) {
        in[i].shape.n_dims = -1;
        CHECK(refuses(op, in, op->n_in, s->attrs));
        in[i] = s->in[i];
    }
}

/* Other dtypes are always wrong; of other sizes a row of several inputs refuses some. */
static void check_changes(const ft_op *op, const ft_sample *s)
{
    ft_spec in[FT_MAX_IN];
    memcpy(in, s->in, sizeof in);
    int refused = 0, present = 0;
    for (int i = 0; i < op->n_in; i++) {
        if (in[i].shape.n_dims < 0) continue;
        present++;
        in[i].dtype = in[i].dtype == FT_I32 ? FT_I64 : FT_BF16;
        if (!CHECK(refuses(op, in, op->n_in, s->attrs))) say(op, s, "accepts another dtype");
        in[i] = s->in[i];
        for (int d = 0; d < s->in[i].shape.n_dims; d++) {
            in[i].shape.dims[d]++;
            refused += refuses(op, in, op->n_in, s->attrs);
            in[i] = s->in[i];
        }
        if (in[i].shape.n_dims == FT_MAX_DIMS) continue;
        in[i].shape.dims[in[i].shape.n_dims++] = 3;
        refused += refuses(op, in, op->n_in, s->attrs);
        in[i] = s->in[i];
        in[i].shape.n_dims = 0;
        refused += refuses(op, in, op->n_in, s->attrs);
        in[i] = s->in[i];
    }
    if (present > 1 && !CHECK(refused > 0)) say(op, s, "refuses no change of shapes");
}

static void check_cost(const ft_op *op, const op_case *c)
{
    ft_spec out[FT_MAX_OUT];
    for (int i = 0; i < op->n_out; i++) out[i] = c->out[i].spec;
    ft_cost cost = op->cost(c->in_specs, out, c->sample->attrs);
    double written = 0.0, read = 0.0;
    for (int i = 0; i < op->n_out; i++) written += (double)ft_spec_bytes(&out[i]);
    for (int i = 0; i < op->n_in; i++)
        if (c->in[i].fast) read += (double)ft_spec_bytes(&c->in_specs[i]);
    CHECK(cost.flops >= 0.0 && isfinite(cost.flops));
    CHECK(cost.bytes_written == written || strcmp(op->name, "cache_append") == 0);
    CHECK(cost.bytes_read >= 0.0 && cost.bytes_read <= 2.0 * (read + written));
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* One run of the kernel into fresh outputs, with everything around it checked. */
static void run_kernel(op_case *c, ft_team *team, twin *out, uint32_t accumulate,
                       const void *packed)
{
    const ft_op *op = c->op;
    ft_view in[FT_MAX_IN] = {0}, outs[FT_MAX_OUT] = {0};
    for (int i = 0; i < op->n_in; i++) in[i] = twin_view(&c->in[i], false);
    for (int i = 0; i < op->n_out; i++) outs[i] = twin_view(&out[i], false);
    int64_t bytes =
        op->workspace ? op->workspace(c->in_specs, c->sample->attrs, ft_team_size(team)) : 0;
    void *work = guarded_new(bytes);
    ft_call call = {.in = in,
                    .out = outs,
                    .attrs = c->sample->attrs,
                    .packed = packed,
                    .work = work,
                    .key = c->key,
                    .accumulate = accumulate,
                    .rows = c->rows,
                    .team = team};
    ft_error err = {0};
    int64_t allocations = ft_alloc_count();
    if (!CHECK(op->kernel(&call, &err) == FT_OK)) say(op, c->sample, err.message);
    if (!CHECK(ft_alloc_count() == allocations)) say(op, c->sample, "allocates");
    if (!CHECK(guarded_intact(work, bytes))) say(op, c->sample, "writes past its workspace");
    for (int i = 0; i < op->n_out; i++)
        if (!CHECK(guarded_intact(out[i].fast, ft_spec_bytes(&out[i].spec))))
            say(op, c->sample, "writes past an output");
    guarded_free(work);
}

/* |fast - judged| relative to the largest judged magnitude; NaN when a number is missing. */
static double worst(const twin *fast, const twin *judged)
{
    int64_t n = twin_count(fast);
    double top = 0.0, error = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double a, b;
        if (fast->spec.dtype == FT_I32) {
            a = ((int32_t *)fast->fast)[i];
            b = ((int32_t *)judged->judged)[i];
        } else {
            a = (double)((float *)fast->fast)[i];
            b = ((double *)judged->judged)[i];
        }
        if (!isfinite(a) || !isfinite(b)) return (double)NAN;
        top = fmax(top, fabs(b));
        error = fmax(error, fabs(a - b));
    }
    return top > 0.0 ? error / top : error;
}

static void compare(const op_case *c, const twin *out, const char *what)
{
    for (int i = 0; i < c->op->n_out; i++) {
        double error = worst(&out[i], &c->out[i]);
        if (CHECK(error <= c->sample->tolerance)) continue;
        say(c->op, c->sample, what);
        fprintf(stderr, "  output %d: error %g, tolerance %g\n", i, error, c->sample->tolerance);
    }
}

static bool same_bits(const op_case *c, const twin *a, const twin *b)
{
    for (int i = 0; i < c->op->n_out; i++)
        if (memcmp(a[i].fast, b[i].fast, (size_t)ft_spec_bytes(&a[i].spec)) != 0) return false;
    return true;
}

static void new_outputs(const op_case *c, twin *out)
{
    for (int i = 0; i < c->op->n_out; i++) out[i] = twin_new(&c->out[i].spec);
}

static void free_outputs(const op_case *c, twin *out)
{
    for (int i = 0; i < c->op->n_out; i++) twin_free(&out[i]);
}

/* Every listed output on its own: before + result. */
static void check_accumulation(op_case *c, const twin *plain)
{
    ft_rng rng;
    ft_rng_init(&rng, 7, 7);
    for (int k = 0; k < c->op->n_out; k++) {
        if (!(c->op->accumulates >> k & 1)) continue;
        twin out[FT_MAX_OUT];
        new_outputs(c, out);
        twin_draw(&out[k], &rng, 0, false);
        int64_t n = twin_count(&out[k]);
        double top = 0.0, error = 0.0;
        run_kernel(c, NULL, out, 1u << k, NULL);
        for (int64_t i = 0; i < n; i++) {
            double result = (double)((float *)plain[k].fast)[i];
            double wanted = ((double *)out[k].judged)[i] + result;
            error = fmax(error, fabs((double)((float *)out[k].fast)[i] - wanted));
            top = fmax(top, fmax(fabs(wanted), fabs(result)));
        }
        if (!CHECK(error <= (c->sample->tolerance + 3e-7) * top)) say(c->op, c->sample, "adds");
        bool same = true; /* as a sum that is added later */
        for (int64_t i = 0; i < n && c->op->n_out > 1; i++) {
            float before = (float)((double *)out[k].judged)[i];
            same = same && ((float *)out[k].fast)[i] == before + ((float *)plain[k].fast)[i];
        }
        if (!CHECK(same)) say(c->op, c->sample, "adds in another order");
        free_outputs(c, out);
    }
}

/* Rows that are said to hold something are cleared, all others are left as they are; what is said
 * afterwards is true of the next call. */
static void check_rows(op_case *c, ft_team *team, const twin *plain)
{
    if (!c->op->by_rows) return;
    int64_t rows = c->out[0].spec.shape.dims[0], width = twin_count(&plain[0]) / (rows ? rows : 1);
    twin out[FT_MAX_OUT];
    new_outputs(c, out);
    float *y = out[0].fast;
    c->rows = guarded_new(rows);
    for (int64_t r = 0; r < rows; r++) {
        c->rows[r] = r % 2 == 0;
        for (int64_t d = 0; d < width; d++) y[r * width + d] = r % 2 ? 0.0f : (float)NAN;
    }
    for (int turn = 0; turn < 2; turn++) {
        run_kernel(c, turn ? team : NULL, out, 0, NULL);
        if (!CHECK(same_bits(c, out, plain))) say(c->op, c->sample, "depends on its rows");
        for (int64_t r = 0; r < rows; r++)
            for (int64_t d = 0; d < width; d++) CHECK(c->rows[r] || y[r * width + d] == 0.0f);
    }
    for (int64_t r = 0; r < rows; r++) /* a row that is not said to hold anything is not touched */
        if (!c->rows[r]) y[r * width] = 7.0f;
    run_kernel(c, NULL, out, 0, NULL);
    for (int64_t r = 0; r < rows; r++) CHECK(c->rows[r] || y[r * width] == 7.0f);
    CHECK(guarded_intact(c->rows, rows));
    guarded_free(c->rows);
    c->rows = NULL;
    free_outputs(c, out);
}

/* A packed weight changes no bit of what the plain one gave. */
static void check_packed(op_case *c, ft_team *team, const twin *plain)
{
    const ft_op *op = c->op;
    if (!op->pack_input) return;
    int64_t bytes = op->pack_bytes(c->in_specs, c->sample->attrs);
    void *packed = guarded_new(bytes);
    ft_error err = {0};
    twin out[FT_MAX_OUT];
    new_outputs(c, out);
    const void *weight = c->in[op->pack_input - 1].fast;
    CHECK_STATUS(op->pack(c->in_specs, c->sample->attrs, weight, packed, NULL, &err), FT_OK);
    CHECK(guarded_intact(packed, bytes));
    run_kernel(c, team, out, 0, packed);
    if (!CHECK(same_bits(c, plain, out))) say(op, c->sample, "depends on being packed");
    free_outputs(c, out);
    guarded_free(packed);
}

static void check_kernel(op_case *c, ft_team *team)
{
    ft_error err = {0};
    twin alone[FT_MAX_OUT], together[FT_MAX_OUT];
    op_case before = *c;
    for (int i = 0; i < c->op->n_in; i++) {
        before.in[i] = twin_new(&c->in_specs[i]);
        if (!c->in[i].fast) continue;
        memcpy(before.in[i].fast, c->in[i].fast, (size_t)ft_spec_bytes(&c->in_specs[i]));
    }
    new_outputs(c, alone);
    new_outputs(c, together);
    if (!CHECK(case_judge(c->op, c->in, c->out, c->sample->attrs, &c->key, &err) == FT_OK))
        say(c->op, c->sample, err.message);
    run_kernel(c, NULL, alone, 0, NULL);
    run_kernel(c, team, together, 0, NULL);
    compare(c, alone, "kernel against reference");
    if (!CHECK(same_bits(c, alone, together))) say(c->op, c->sample, "depends on the team");
    for (int i = 0; i < c->op->n_in; i++) {
        if (!c->in[i].fast) continue;
        size_t bytes = (size_t)ft_spec_bytes(&c->in_specs[i]);
        CHECK(memcmp(before.in[i].fast, c->in[i].fast, bytes) == 0);
        twin_free(&before.in[i]);
    }
    check_accumulation(c, alone);
    check_rows(c, team, alone);
    check_packed(c, team, alone);
    free_outputs(c, alone);
    free_outputs(c, together);
}

static void test_samples(void)
{
    ft_team *team = NULL;
    ft_error err = {0};
    CHECK_STATUS(ft_team_new(&team, 3, &err), FT_OK);
    for (const ft_op *const *op = ft_ops; *op; op++)
        for (int i = 0; i < (*op)->n_samples; i++) {
            op_case c;
            const ft_sample *sample = &(*op)->samples[i];
            if (case_needs_bf16(*op, sample) && !ft_cpu_bf16()) {
                fprintf(stderr, "  skipped: row %s, sample %d: no bf16 here\n", (*op)->name, i);
                continue;
            }
            if (!CHECK(case_init(&c, *op, sample, &err))) {
                say(*op, sample, err.message);
                continue;
            }
            check_numbers(*op, sample);
            check_changes(*op, sample);
            check_cost(*op, &c);
            check_kernel(&c, team);
            case_free(&c);
        }
    ft_team_free(team);
}

/* What the samples of `slice` cannot show: ranges that are not there. */
static void test_slices(void)
{
    const ft_op *slice = ft_op_find("slice"), *grad = ft_op_find("slice_grad");
    const ft_spec x = {FT_F32, ft_shape_of(2, 5)};
    const struct {
        const ft_op *op;
        double attrs[FT_MAX_ATTRS];
        const char *message;
    } cases[] = {
        {slice, {1, 3, 3, 0}, "slice: 3 from 3 on of axis 1, which has 5"},
        {slice, {1, 3, 2, 1}, "slice: a range of 2 cannot drop its axis, expected 1"},
        {slice, {2, 0, 1, 0}, "slice: x is f32 (2, 5), expected more dimensions than the axis"},
        {grad, {1, 3, 7, 0}, "slice_grad: 5 from 3 on of an axis of 7"},
        {grad, {2, 1, 1, 1}, "slice_grad: 1 from 1 on of an axis of 1"},
        {grad, {3, 0, 9, 1}, "slice_grad: dy is f32 (2, 5), expected more dimensions than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_spec out[FT_MAX_OUT];
        ft_error err = {0};
        CHECK_STATUS(ft_op_shape(cases[i].op, &x, 1, cases[i].attrs, out, &err), FT_SHAPE);
        if (!CHECK(strstr(err.message, cases[i].message) == err.message))
            fprintf(stderr, "  %s\n", err.message);
    }
}

/* Rows of no numbers have no mean and no largest number. */
static void test_rows_of_nothing(void)
{
    static const struct {
        const char *name;
        int n_in;
        const char *axis;
    } cases[] = {{"rms_norm", 2, "last axis"},
                 {"layer_norm", 3, "last axis"},
                 {"mean", 1, "axis"},
                 {"max", 1, "axis"}};
    const ft_spec none = {FT_F32, ft_shape_of(0)};
    const ft_spec in[FT_MAX_IN] = {{FT_F32, ft_shape_of(3, 0)}, none, none};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_op *op = ft_op_find(cases[i].name);
        const double attrs[FT_MAX_ATTRS] = {1}; /* the axis; of norms eps */
        ft_spec out[FT_MAX_OUT];
        ft_error err = {0};
        char words[120];
        snprintf(words, sizeof words,
                 "%s: x is f32 (3, 0), expected at least one number along the %s", cases[i].name,
                 cases[i].axis);
        CHECK_STATUS(ft_op_shape(op, in, cases[i].n_in, attrs, out, &err), FT_SHAPE);
        CHECK(strcmp(err.message, words) == 0);
    }
}

int main(void)
{
    RUN(test_parts);
    RUN(test_samples);
    RUN(test_slices);
    RUN(test_rows_of_nothing);
    return check_report();
}
