/* test/test_ops_grad.c - the gradient of every row against central differences of its reference.
 *
 * A small builder records the nodes that a gradient rule adds; they are evaluated by their
 * references, in f64. For a random cotangent the gradient must be the slope of <cotangent, output>:
 * along every single number of a small input, and along random directions for a large one. */
#include "check.h"
#include "op_case.h"

enum { MAX_NODES = 24, MAX_VALUES = 96, EVERY = 64, DIRECTIONS = 4 };
static const double STEP = 1e-6, TOLERANCE = 2e-6;

typedef struct recorded {
    const ft_op *op;
    ft_value_id in[FT_MAX_IN], out;
    double attrs[FT_MAX_ATTRS];
} recorded;

typedef struct recorder {
    ft_builder builder; /* first: the rules see this */
    recorded nodes[MAX_NODES];
    twin values[MAX_VALUES];
    int n_nodes, n_values;
    ft_error err;
} recorder;

static ft_value_id recorder_add(ft_builder *b, const ft_op *op, const ft_value_id *in, int n_in,
                                const double *attrs)
{
    recorder *r = (recorder *)b;
    ft_spec specs[FT_MAX_IN], out[FT_MAX_OUT];
    if (r->err.status != FT_OK || r->n_nodes == MAX_NODES || n_in > op->n_in) return FT_NO_VALUE;
    recorded *node = &r->nodes[r->n_nodes];
    *node = (recorded){.op = op, .out = r->n_values};
    for (int i = 0; i < FT_MAX_IN; i++) {
        node->in[i] = i < n_in ? in[i] : FT_NO_VALUE;
        specs[i] = node->in[i] == FT_NO_VALUE ? (ft_spec){.shape = {.n_dims = -1}}
                                              : r->values[node->in[i]].spec;
    }
    memcpy(node->attrs, attrs, sizeof node->attrs);
    if (ft_op_shape(op, specs, n_in, attrs, out, &r->err) != FT_OK) return FT_NO_VALUE;
    for (int i = 0; i < op->n_out; i++) r->values[r->n_values++] = twin_new(&out[i]);
    r->n_nodes++;
    return node->out;
}

static const ft_spec *recorder_spec(ft_builder *b, ft_value_id value)
{
    return &((recorder *)b)->values[value].spec;
}

/* Runs what was recorded; gradients draw what the node of the case drew. */
static bool recorder_run(recorder *r, const op_case *c)
{
    static const twin absent = {.spec = {.shape = {.n_dims = -1}}};
    for (int k = 0; k < r->n_nodes; k++) {
        recorded *node = &r->nodes[k];
        twin in[FT_MAX_IN];
        for (int i = 0; i < FT_MAX_IN; i++)
            in[i] = node->in[i] == FT_NO_VALUE ? absent : r->values[node->in[i]];
        if (case_judge(node->op, in, &r->values[node->out], node->attrs, &c->key, &r->err) != FT_OK)
            return false;
    }
    return true;
}

/* The gradient rule applied to a case. Values: inputs, outputs, cotangents, then the rule's own. */
typedef struct site {
    recorder r;
    ft_value_id in[FT_MAX_IN], out[FT_MAX_OUT], dout[FT_MAX_OUT], din[FT_MAX_IN];
    int n_borrowed; /* values that belong to the case */
} site;

static void site_init(site *s, const op_case *c, const twin *cotangents, const bool *wanted)
{
    memset(s, 0, sizeof *s);
    s->r.builder = (ft_builder){recorder_add, recorder_spec};
    for (int i = 0; i < FT_MAX_IN; i++) {
        s->in[i] = s->din[i] = FT_NO_VALUE;
        if (!c->in[i].fast) continue;
        s->in[i] = s->r.n_values;
        s->r.values[s->r.n_values++] = c->in[i];
    }
    for (int k = 0; k < c->op->n_out; k++) {
        s->out[k] = s->r.n_values;
        s->r.values[s->r.n_values++] = c->out[k];
    }
    for (int k = 0; k < c->op->n_out; k++) {
        s->dout[k] = FT_NO_VALUE;
        if (c->op->no_grad_out >> k & 1) continue;
        s->dout[k] = s->r.n_values;
        s->r.values[s->r.n_values++] = cotangents[k];
    }
    s->n_borrowed = s->r.n_values;
    ft_grad_site grad = {.in = s->in,
                         .out = s->out,
                         .dout = s->dout,
                         .wanted = wanted,
                         .attrs = c->sample->attrs,
                         .din = s->din};
    c->op->grad(&s->r.builder, &grad);
}

static void site_fini(site *s)
{
    for (int i = s->n_borrowed; i < s->r.n_values; i++) twin_free(&s->r.values[i]);
}

/* <cotangent, outputs> with the inputs as they are; uses the outputs of `scratch`. */
static double objective(const op_case *c, const twin *cotangents, const twin *scratch)
{
    ft_error err = {0};
    double sum = 0.0;
    if (case_judge(c->op, c->in, scratch, c->sample->attrs, &c->key, &err) != FT_OK)
        return (double)NAN;
    for (int k = 0; k < c->op->n_out; k++) {
        if (c->op->no_grad_out >> k & 1) continue;
        int64_t n = twin_count(&scratch[k]);
        for (int64_t i = 0; i < n; i++)
            sum += ((double *)cotangents[k].judged)[i] * ((double *)scratch[k].judged)[i];
    }
    return sum;
}

/* Slope along `direction` of input i (n numbers) by central differences. */
static double slope(const op_case *c, const twin *cotangents, const twin *scratch, int i,
                    const double *direction)
{
    int64_t n = twin_count(&c->in[i]);
    double *x = c->in[i].judged, ends[2];
    for (int side = 0; side < 2; side++) {
        double step = side ? STEP : -STEP;
        for (int64_t k = 0; k < n; k++) x[k] += step * direction[k];
        ends[side] = objective(c, cotangents, scratch);
        for (int64_t k = 0; k < n; k++) x[k] = (double)((float *)c->in[i].fast)[k];
    }
    return (ends[1] - ends[0]) / (2.0 * STEP);
}

static void check_input(const op_case *c, const twin *cotangents, const twin *scratch, int i,
                        const double *grad)
{
    int64_t n = twin_count(&c->in[i]);
    int trials = n <= EVERY ? (int)n : DIRECTIONS;
    double *direction = calloc((size_t)n + 1, sizeof *direction), size = 0.0;
    ft_rng rng;
    ft_rng_init(&rng, 99, (uint64_t)i);
    for (int64_t k = 0; k < n; k++) size = fmax(size, fabs(grad[k]));
    for (int t = 0; t < trials; t++) {
        double wanted = 0.0;
        for (int64_t k = 0; k < n; k++) {
            direction[k] = n <= EVERY ? (double)(k == t) : ft_rng_normal(&rng);
            wanted += direction[k] * grad[k];
        }
        double found = slope(c, cotangents, scratch, i, direction);
        double scale = 1.0 + size * sqrt((double)n);
        if (CHECK(fabs(found - wanted) <= TOLERANCE * scale)) continue;
        fprintf(stderr, "  row %s, sample %d, input %d: gradient %.9g, difference %.9g\n",
                c->op->name, (int)(c->sample - c->op->samples), i, wanted, found);
    }
    free(direction);
}

/* Inputs that rows say nothing about on purpose: ids, the weight of a loss, which is not learnt,
 * and everything of an attention over a cache, which only decoding does. */
static bool without_gradient(const op_case *c, int input)
{
    return c->in[input].spec.dtype != FT_F32 ||
           (strcmp(c->op->name, "cross_entropy") == 0 && input == 2) ||
           (strcmp(c->op->name, "attention") == 0 && c->in[5].fast);
}

/* A rule asked for one input alone gives the same numbers for it and nothing else. */
static void check_alone(const op_case *c, const twin *cotangents, int i, const double *grad)
{
    bool wanted[FT_MAX_IN] = {false};
    wanted[i] = true;
    site alone;
    site_init(&alone, c, cotangents, wanted);
    CHECK(alone.r.err.status == FT_OK && recorder_run(&alone.r, c));
    for (int k = 0; k < c->op->n_in; k++) CHECK(k == i || alone.din[k] == FT_NO_VALUE);
    if (CHECK(alone.din[i] != FT_NO_VALUE))
        CHECK(memcmp(alone.r.values[alone.din[i]].judged, grad,
                     (size_t)twin_count(&c->in[i]) * sizeof *grad) == 0);
    site_fini(&alone);
}

static void check_gradient(op_case *c)
{
    twin cotangents[FT_MAX_OUT], scratch[FT_MAX_OUT];
    bool wanted[FT_MAX_IN] = {false};
    ft_error err = {0};
    ft_rng rng;
    ft_rng_init(&rng, 11, 0);
    for (int k = 0; k < c->op->n_out; k++) {
        cotangents[k] = twin_new(&c->out[k].spec);
        scratch[k] = twin_new(&c->out[k].spec);
        twin_draw(&cotangents[k], &rng, 0, false);
    }
    for (int i = 0; i < c->op->n_in; i++) wanted[i] = c->in[i].fast && !without_gradient(c, i);
    CHECK_STATUS(case_judge(c->op, c->in, c->out, c->sample->attrs, &c->key, &err), FT_OK);
    site s;
    site_init(&s, c, cotangents, wanted);
    bool ran = s.r.err.status == FT_OK && recorder_run(&s.r, c);
    if (!CHECK(ran)) fprintf(stderr, "  row %s: %s\n", c->op->name, s.r.err.message);
    for (int i = 0; ran && i < c->op->n_in; i++) {
        CHECK(wanted[i] || s.din[i] == FT_NO_VALUE);
        if (!wanted[i]) continue;
        if (!CHECK(s.din[i] != FT_NO_VALUE)) {
            fprintf(stderr, "  row %s: no gradient of input %d\n", c->op->name, i);
            continue;
        }
        const twin *grad = &s.r.values[s.din[i]];
        if (!CHECK(ft_shape_equal(&grad->spec.shape, &c->in_specs[i].shape))) continue;
        check_input(c, cotangents, scratch, i, grad->judged);
        check_alone(c, cotangents, i, grad->judged);
    }
    site_fini(&s);
    for (int k = 0; k < c->op->n_out; k++) {
        twin_free(&cotangents[k]);
        twin_free(&scratch[k]);
    }
}

static void test_gradients(void)
{
    for (const ft_op *const *op = ft_ops; *op; op++)
        for (int i = 0; (*op)->grad && i < (*op)->n_samples; i++) {
            op_case c;
            ft_error err;
            if (!CHECK(case_init(&c, *op, &(*op)->samples[i], &err))) continue;
            check_gradient(&c);
            case_free(&c);
        }
}

int main(void)
{
    RUN(test_gradients);
    return check_report();
}
