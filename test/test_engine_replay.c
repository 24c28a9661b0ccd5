/* test/test_engine_replay.c - runs against the same training worked out by hand.
 *
 * The chain of test/chain_case.h is computed in f64 with loops that are written out here: no graph,
 * no kernel, no optimizer and no action of the engine. Of the plan it takes how many updates stand
 * before each action in its device's list, and so which version of the weights a micro-batch meets
 * in each stage. */
#include <string.h>

#include "base/alloc.h"
#include "engine_run.h"

enum { STAGES = 3, BATCHES = 10 };

static const double RATE = 0.05, MOMENTUM = 0.9; /* of feed, and of SGD by default */

typedef struct weights {
    double w1[HIDDEN][IN], w2[HIDDEN][HIDDEN], w3[OUT][HIDDEN];
} weights;

/* -- versions ---------------------------------------------------------------------------------- */

/* By stage, batch and micro-batch: updates that were done before the action. */
typedef struct versions {
    int forward[STAGES][BATCHES][MICRO], backward[STAGES][BATCHES][MICRO];
    int late;            /* actions that a newer version has been made before */
    double mean[STAGES]; /* updates that the forwards are late, once the pipeline is full */
} versions;

/* Of a backward in halves the first reads weights, for the gradients of its inputs. Stage 1 owns
 * nothing: what it reads changes when it adopts, not when it updates. */
static void find_versions(versions *v, const ft_plan *plan)
{
    memset(v, 0, sizeof *v);
    for (int d = 0; d < plan->n_devices; d++) {
        int updates[STAGES] = {0}, adopted[STAGES] = {0};
        for (int64_t i = 0; i < ft_plan_length(plan, d); i++) {
            ft_action a = ft_plan_at(plan, d, i);
            updates[a.stage] += a.kind == FT_ACT_UPDATE;
            adopted[a.stage] += a.kind == FT_ACT_ADOPT;
            bool forward = a.kind == FT_ACT_FORWARD;
            if (!forward && a.kind != FT_ACT_BACKWARD && a.kind != FT_ACT_BACKWARD_INPUT) continue;
            int(*of)[BATCHES][MICRO] = forward ? v->forward : v->backward;
            of[a.stage][a.batch][a.micro] = a.stage == 1 ? adopted[1] : updates[a.stage];
            if (forward && a.batch >= BATCHES / 2)
                v->mean[a.stage] += (double)(a.batch - updates[a.stage]) / (BATCHES / 2 * MICRO);
            CHECK(a.lag == a.batch - updates[a.stage]);
            v->late += a.lag > 0;
        }
    }
}

/* -- the chain --------------------------------------------------------------------------------- */

/* out = matrix in, of a matrix of n_out rows. */
static void multiply(const double *matrix, const double *in, int n_out, int n_in, double *out)
{
    for (int i = 0; i < n_out; i++) {
        out[i] = 0;
        for (int k = 0; k < n_in; k++) out[i] += matrix[i * n_in + k] * in[k];
    }
}

/* What a gradient of matrix in is for both: adds to that of the matrix and makes that of in. */
static void multiply_back(const double *matrix, const double *in, const double *dout, int n_out,
                          int n_in, double *dmatrix, double *din)
{
    for (int k = 0; k < n_in; k++) {
        din[k] = 0;
        for (int i = 0; i < n_out; i++) {
            din[k] += matrix[i * n_in + k] * dout[i];
            dmatrix[i * n_in + k] += dout[i] * in[k];
        }
    }
}

/* Of one row, the share of the loss, and what it adds to the gradient. Stage s reads forward[s] on
 * the way there and backward[s] on the way back. */
static double add_row(const double *x, const double *t, const weights *const forward[STAGES],
                      const weights *const backward[STAGES], weights *grad)
{
    double h[HIDDEN], u[HIDDEN], v[HIDDEN], y[OUT], loss = 0;
    double dy[OUT], dv[HIDDEN], du[HIDDEN], dh[HIDDEN], dx[IN];
    multiply(&forward[0]->w1[0][0], x, HIDDEN, IN, h);
    for (int i = 0; i < HIDDEN; i++) h[i] = fmax(h[i], 0);
    multiply(&forward[0]->w2[0][0], h, HIDDEN, HIDDEN, u);
    multiply(&forward[1]->w2[0][0], u, HIDDEN, HIDDEN, v);
    multiply(&forward[2]->w3[0][0], v, OUT, HIDDEN, y);
    for (int i = 0; i < OUT; i++) {
        loss += (y[i] - t[i]) * (y[i] - t[i]) / (ROWS * OUT);
        dy[i] = 2 * (y[i] - t[i]) / (ROWS * OUT);
    }
    multiply_back(&backward[2]->w3[0][0], v, dy, OUT, HIDDEN, &grad->w3[0][0], dv);
    multiply_back(&backward[1]->w2[0][0], u, dv, HIDDEN, HIDDEN, &grad->w2[0][0], du);
    multiply_back(&backward[0]->w2[0][0], h, du, HIDDEN, HIDDEN, &grad->w2[0][0], dh);
    for (int i = 0; i < HIDDEN; i++) dh[i] = h[i] > 0 ? dh[i] : 0;
    multiply_back(&backward[0]->w1[0][0], x, dh, HIDDEN, IN, &grad->w1[0][0], dx);
    return loss;
}

/* -- the replay -------------------------------------------------------------------------------- */

static void fill_double(double *to, int n, uint32_t seed)
{
    float values[MICRO * ROWS * (IN > OUT ? IN : OUT) + HIDDEN * HIDDEN];
    fill(values, n, seed);
    for (int i = 0; i < n; i++) to[i] = (double)values[i];
}

/* A batch: adds its gradient, returns its loss. */
static double add_batch(const versions *v, const weights *version, int batch, weights *grad)
{
    double x[MICRO * ROWS * IN], t[MICRO * ROWS * OUT], loss = 0;
    fill_double(x, MICRO * ROWS * IN, 11); /* as feed */
    fill_double(t, MICRO * ROWS * OUT, 12);
    for (int row = 0; row < MICRO * ROWS; row++) {
        const weights *forward[STAGES], *backward[STAGES];
        for (int s = 0; s < STAGES; s++) {
            forward[s] = &version[v->forward[s][batch][row / ROWS]];
            backward[s] = &version[v->backward[s][batch][row / ROWS]];
        }
        loss += add_row(x + row * IN, t + row * OUT, forward, backward, grad);
    }
    return loss;
}

/* The losses, and the weights after every batch. With look_ahead w1 and w2 are kept ahead by what
 * the forwards of stage 0 are late, w3 by what those of stage 2 are. */
static void replay(const ft_plan *plan, bool look_ahead, double *losses,
                   weights version[BATCHES + 1])
{
    enum { N = sizeof(weights) / sizeof(double) };
    static versions v;
    double momentum[N] = {0};
    find_versions(&v, plan);
    fill_double(&version[0].w1[0][0], HIDDEN * IN, 3); /* as set_params */
    fill_double(&version[0].w2[0][0], HIDDEN * HIDDEN, 4);
    fill_double(&version[0].w3[0][0], OUT * HIDDEN, 5);
    for (int b = 0; b < BATCHES; b++) {
        weights grad = {0};
        losses[b] = add_batch(&v, version, b, &grad);
        const double *was = (const double *)&version[b], *g = (const double *)&grad;
        for (int i = 0; i < (int)N; i++) {
            double before = momentum[i];
            double ahead = look_ahead ? v.mean[i < HIDDEN * IN + HIDDEN * HIDDEN ? 0 : 2] : 0;
            momentum[i] = MOMENTUM * before + g[i];
            ((double *)&version[b + 1])[i] =
                was[i] - RATE * (momentum[i] + ahead * (momentum[i] - before));
        }
    }
    CHECK((v.late > 0) == !strcmp(plan->schedule, "async"));
}

static double furthest(const ft_view *found, const double *wanted)
{
    const float *data = found->data;
    double most = 0;
    for (int64_t i = 0; i < ft_shape_count(&found->shape); i++)
        most = fmax(most, fabs((double)data[i] - wanted[i]));
    return most;
}

/* With `replicas` of each stage, on devices of their own, whatever `devices` says. */
static void compare(const char *devices, const int *replicas, const char *schedule, bool threaded,
                    bool look_ahead)
{
    pipeline p;
    ft_error err = {FT_OK, ""};
    ft_blueprint *b = NULL;
    ft_run *run = NULL;
    double found[BATCHES], wanted[BATCHES];
    static weights version[BATCHES + 1];
    if (!pipeline_init(&p, devices, schedule)) return;
    if (replicas && !pipeline_replicate(&p, replicas, STAGES)) return;
    p.options.optimizer = ft_optimizer_find("sgd");
    p.options.look_ahead = look_ahead;
    CHECK_STATUS(ft_optimizer_hypers(p.options.optimizer, NULL, NULL, 0, p.hypers, &err), FT_OK);
    if (CHECK_STATUS(pipeline_draw(&b, &p, &err), FT_OK) &&
        CHECK_STATUS(ft_run_new(&run, b, &err), FT_OK) &&
        CHECK_STATUS(set_params(run, &err), FT_OK) &&
        CHECK_STATUS(train(run, ft_blueprint_plan(b), threaded, found, &err), FT_OK)) {
        replay(ft_blueprint_plan(b), look_ahead, wanted, version);
        const weights *last = &version[BATCHES];
        for (int i = 0; i < BATCHES; i++) CHECK_NEAR(found[i] / wanted[i], 1, 1e-5);
        const double *const params[] = {&last->w1[0][0], &last->w2[0][0], &last->w3[0][0]};
        for (int i = 0; i < PARAMS; i++) {
            ft_view view = ft_run_param(run, i);
            CHECK(furthest(&view, params[i]) < 1e-5);
        }
    } else
        fprintf(stderr, "%s\n", err.message);
    ft_run_free(run);
    ft_blueprint_free(b);
    pipeline_free(&p);
}

static void test_runs_are_what_their_plans_say(void)
{
    static const char *const schedules[] = {"sequential", "gpipe", "1f1b", "zero-bubble", "async"};
    for (int s = 0; s < 5; s++)
        for (int threaded = 0; threaded < 2; threaded++) {
            compare("cpu:2", NULL, schedules[s], threaded, false);
            compare("cpu:3", NULL, schedules[s], threaded, false);
            compare("cpu:3", NULL, schedules[s], threaded, true);
        }
}

/* Micro-batches of a replica meet the versions that its own list gives them. */
static void test_replicas_do_what_their_plans_say(void)
{
    static const int replicas[][STAGES] = {{2, 1, 1}, {1, 1, 2}, {1, 2, 1}, {4, 1, 2}, {2, 2, 2}};
    for (size_t r = 0; r < sizeof replicas / sizeof *replicas; r++) {
        compare("cpu:3", replicas[r], "1f1b", true, false);
        compare("cpu:3", replicas[r], "async", true, false);
        compare("cpu:3", replicas[r], "async", true, true);
    }
}

int main(void)
{
    RUN(test_runs_are_what_their_plans_say);
    RUN(test_replicas_do_what_their_plans_say);
    CHECK(ft_alloc_live() == 0);
    return check_report();
}
