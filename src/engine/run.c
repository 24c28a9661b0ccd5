/* engine/run.c - a blueprint with memory and weights. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "blueprint/actions.h"
#include "edges/channels.h"
#include "engine/internal.h"
#include "state/disk.h"

/* -- checking ---------------------------------------------------------------------------------- */

/* The first action of a kind that cannot be executed, or NULL. */
static const ft_action *find_unknown(const ft_action_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (!can_execute(list->actions[i].kind)) return &list->actions[i];
    return NULL;
}

ft_status ft_run_check_plan(const ft_plan *plan, ft_error *err)
{
    for (int d = 0; d < plan->n_devices; d++) {
        const ft_device_plan *lists = &plan->devices[d];
        const ft_action *a = find_unknown(&lists->warmup);
        if (!a) a = find_unknown(&lists->body);
        if (!a) a = find_unknown(&lists->drain);
        if (a)
            return ft_fail(
                err, FT_UNSUPPORTED,
                "plan: %s actions, as stage %d has on device %d, can be planned and simulated but "
                "not executed yet: expected a schedule without them, as 1f1b",
                ft_action_word(a->kind), a->stage, d);
        if (plan->by_policy[d])
            return ft_fail(err, FT_UNSUPPORTED,
                           "engine: device %d chooses its order by policy, which can be simulated "
                           "but not executed yet",
                           d);
    }
    return FT_OK;
}

ft_status ft_run_check(const ft_blueprint *b, ft_error *err)
{
    return ft_run_check_plan(&b->plan, err);
}

/* -- making ------------------------------------------------------------------------------------ */

static ft_status allocate_block(ft_run *run, int d, ft_error *err)
{
    worker *w = &run->workers[d];
    const ft_device *device = &run->blueprint->cut.devices[d];
    int64_t bytes = run->blueprint->blocks[d].total;
    w->run = run;
    w->device = d;
    if (is_here(run, d) && !device->driver)
        return ft_fail(err, FT_DEVICE, "device %s exists for planning only, nothing runs there",
                       device->name);
    w->live = ft_arena_array(run->arena, LIVE_ROWS, sizeof *w->live);
    w->high = ft_arena_array(run->arena, LIVE_ROWS, sizeof *w->high);
    if (!w->live || !w->high) return ft_fail(err, FT_NOMEM, "engine: no memory for a worker");
    if (!is_here(run, d)) return FT_OK;
    const ft_driver *driver = device->driver;
    FT_TRY(driver->open(&w->executor, device, err));
    FT_TRY(driver->enter(w->executor, err));
    FT_TRY(driver->open_stream(&w->compute, w->executor, FT_FOR_COMPUTE, err));
    w->team = w->executor->team;
    w->block_bytes = bytes;
    void *block = NULL;
    FT_TRY(driver->alloc(w->executor, FT_OF_DEVICE, bytes, &block, err));
    w->block = block;
    const ft_block_layout *layout = &run->blueprint->blocks[d];
    if (driver->lend && device->library_bytes)
        driver->lend(w->compute, w->block + layout->begin[FT_MEMORY_WORKSPACE],
                     device->library_bytes);
    for (int c = FT_MEMORY_ACTIVATIONS; c < FT_MEMORY_CLASSES; c++) /* what comes and goes */
        vacate(w, w->block + layout->begin[c], layout->bytes[c]);
    const ft_stays_part *moving = &run->blueprint->stays.parts[d];
    vacate(w, w->block + moving->begin, moving->bytes);
    return FT_OK;
}

static void release_block(worker *w)
{
    if (w->block) w->executor->driver->release(w->executor, FT_OF_DEVICE, w->block, w->block_bytes);
    w->block = NULL;
}

static void close_device(worker *w)
{
    if (!w->executor) return;
    const ft_driver *driver = w->executor->driver;
    if (w->compute) driver->close_stream(w->compute);
    release_block(w);
    hearing_close(w);
    driver->close(w->executor);
}

/* A worker of evaluation works in the memory of training's. */
static void borrow_block(ft_run *run, int d)
{
    const worker *lender = &run->trains->workers[d];
    worker *w = &run->workers[d];
    w->run = run;
    w->device = d;
    w->executor = lender->executor;
    w->compute = lender->compute;
    w->team = lender->team;
    w->findings = lender->findings;
    w->hearing = lender->hearing;
    w->block = lender->block;
    w->block_bytes = lender->block_bytes;
    w->live = lender->live;
    w->high = lender->high;
}

/* Evaluation finds parameters and their packed copies where training has them. */
static void point_at_trained(ft_run *run, int s)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[s];
    const seat_state *trained = run->trains->seats;
    seat_state *state = &run->seats[s];
    for (int i = 0; i < seat->n_params; i++) {
        int p = seat->params[i].param;
        state->params[p] = trained[seat->params[i].trained].params[b->params[p].trained];
    }
    for (int i = 0; i < seat->n_packs; i++)
        state->packed[i] = trained[seat->pack_seat[i]].packed[seat->pack_at[i]];
}

/* Where the seat's gradient terms are, and what is known of them. */
static ft_status point_terms(ft_run *run, int s, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[s];
    seat_state *state = &run->seats[s];
    int n = seat->cut[0]->n_grads;
    double *squares = ft_arena_array(run->arena, n + 1, sizeof *squares);
    state->grads = ft_arena_array(run->arena, b->n_terms + 1, sizeof(void *));
    state->rows = ft_arena_array(run->arena, b->n_terms + 1, sizeof(uint8_t *));
    state->squares = ft_arena_array(run->arena, b->n_terms + 1, sizeof(double *));
    state->terms = ft_arena_array(run->arena, b->n_terms + 1, sizeof(ft_sum_term));
    state->summands =
        ft_arena_array(run->arena, b->n_terms + b->seating.n_seats + 1, sizeof(float *));
    state->parts = ft_arena_array(run->arena, b->seating.n_seats, sizeof(ft_sum_term));
    state->kept_terms = ft_arena_array(run->arena, n + 1, sizeof(bool));
    if (!state->parts || !state->summands || !state->kept_terms || !squares || !state->grads ||
        !state->rows || !state->squares || !state->terms)
        return ft_fail(err, FT_NOMEM, "engine: no memory for the gradients of stage %d",
                       plan_stage(run, s));
    for (int i = 0; i < n; i++) {
        int term = seat->cut[0]->grads[i];
        const ft_param_layout *info = &b->params[ft_graph_grad_term(b->cut.graphs[0], term)->param];
        state->grads[term] = run->workers[seat->device].block + seat->term_at[i];
        bool alone = info->n_terms == 1 && b->seating.of[seat->stage].n == 1;
        if (alone) state->squares[term] = &squares[i];
        /* other devices write whole gradients */
        if (!ft_blueprint_by_rows(b, term) || run->workers[seat->device].findings) continue;
        state->rows[term] = ft_arena_alloc(run->arena, info->spec.shape.dims[0]);
        if (!state->rows[term])
            return ft_fail(err, FT_NOMEM, "engine: no memory for the rows of '%s'", info->name);
    }
    return FT_OK;
}

static ft_status list_packs(ft_run *run, int s, ft_error *err)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    seat_state *state = &run->seats[s];
    int n_params = run->blueprint->n_params;
    state->first_pack = ft_arena_array(run->arena, n_params + 1, sizeof(int));
    state->next_pack = ft_arena_array(run->arena, seat->n_packs + 1, sizeof(int));
    if (!state->first_pack || !state->next_pack)
        return ft_fail(err, FT_NOMEM, "engine: no memory for stage %d", plan_stage(run, s));
    for (int p = 0; p < n_params; p++) state->first_pack[p] = -1;
    for (int i = seat->n_packs - 1; i >= 0; i--) {
        int *first = &state->first_pack[seat->packs[i].param];
        state->next_pack[i] = *first;
        *first = i;
    }
    return FT_OK;
}

static ft_status point_seat(ft_run *run, int s, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_layout *seat = &b->seats[s];
    seat_state *state = &run->seats[s];
    char *block = run->workers[seat->device].block;
    int64_t losses = (int64_t)b->batch_slots * b->seating.of[seat->stage].per_batch;
    state->losses = ft_arena_array(run->arena, losses, sizeof(float));
    if (state->losses && !seat_is_here(run, s)) return FT_OK;
    state->params = ft_arena_array(run->arena, b->n_params + 1, sizeof(void *));
    state->packed = ft_arena_array(run->arena, seat->n_packs + 1, sizeof(void *));
    state->inputs = ft_arena_array(run->arena, b->n_inputs + 1, sizeof(void *));
    state->bound = ft_arena_array(run->arena, seat->n_bound + 1, sizeof(void *));
    state->kept_params = ft_arena_array(run->arena, seat->n_params + 1, sizeof(bool));
    state->kept_packs = ft_arena_array(run->arena, seat->n_packs + 1, sizeof(bool));
    state->updates = ft_arena_array(run->arena, seat->n_params + 1, sizeof(ft_update));
    if (!state->losses || !state->params || !state->packed || !state->inputs || !state->bound ||
        !state->kept_params || !state->kept_packs || !state->updates)
        return ft_fail(err, FT_NOMEM, "engine: no memory for stage %d", plan_stage(run, s));
    FT_TRY(versions_new(run, s, err));
    FT_TRY(list_packs(run, s, err));
    if (run->trains) {
        point_at_trained(run, s);
        return FT_OK;
    }
    for (int i = 0; i < seat->n_params; i++) {
        const ft_seat_param *sp = &seat->params[i];
        int64_t at = sp->owned || sp->replica ? sp->at : b->params[sp->param].at;
        state->params[sp->param] = block + at;
    }
    for (int i = 0; i < seat->n_packs; i++) state->packed[i] = block + seat->pack_at[i];
    return point_terms(run, s, err);
}

static ft_status open_programs(ft_run *run, int s, ft_program ***out, ft_error *err)
{
    *out = ft_arena_array(run->arena, run->n_buckets, sizeof **out);
    return *out ? FT_OK
                : ft_fail(err, FT_NOMEM, "engine: no memory for the programs of stage %d",
                          plan_stage(run, s));
}

static ft_status compile_joint(ft_run *run, int s, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    if (!seat_is_here(run, s) || b->seating.of[b->seats[s].stage].joint == 1) return FT_OK;
    ft_program ***programs = &run->seats[s].joint;
    FT_TRY(open_programs(run, s, programs, err));
    for (int i = 0; i < run->n_buckets; i++)
        FT_TRY(ft_blueprint_compile_joint(b, s, i, &(*programs)[i], err));
    return FT_OK;
}

/* Of seats here alone. */
static ft_status compile(ft_run *run, int s, ft_error *err)
{
    const ft_seat_layout *seat = &run->blueprint->seats[s];
    for (int k = 0; seat_is_here(run, s) && k < FT_ACT_COUNT; k++) {
        if (!seat->nodes[k]) continue;
        FT_TRY(open_programs(run, s, &run->seats[s].programs[k], err));
        ft_program **programs = run->seats[s].programs[k];
        for (int i = 0; i < run->n_buckets; i++)
            FT_TRY(ft_blueprint_compile(run->blueprint, s, i, k, &programs[i], err));
    }
    return compile_joint(run, s, err);
}

static void free_programs(const ft_run *run)
{
    for (int s = 0; run->seats && s < run->n_seats; s++) {
        const seat_state *seat = &run->seats[s];
        for (int k = 0; k < FT_ACT_COUNT; k++)
            for (int i = 0; seat->programs[k] && i < run->n_buckets; i++)
                ft_program_free(seat->programs[k][i]);
        for (int i = 0; seat->joint && i < run->n_buckets; i++) ft_program_free(seat->joint[i]);
    }
}

static char *owner_block(const ft_run *run, int param)
{
    const ft_blueprint *b = run->blueprint;
    return run->workers[b->seats[b->params[param].owner].device].block;
}

static ft_status build(ft_run *run, const ft_blueprint *b, ft_error *err)
{
    run->blueprint = b;
    run->n_devices = b->cut.n_devices;
    run->n_edges = b->n_edges;
    run->n_seats = b->seating.n_seats;
    run->n_buckets = b->cut.n_graphs;
    run->seats = ft_arena_array(run->arena, b->seating.n_seats, sizeof *run->seats);
    run->edges = ft_arena_array(run->arena, b->n_edges + 4, sizeof *run->edges);
    run->batches = ft_arena_array(run->arena, b->batch_slots, sizeof *run->batches);
    run->results = ft_arena_array(run->arena, b->batch_slots, sizeof *run->results);
    run->gaps =
        ft_arena_array(run->arena, (int64_t)b->batch_slots * b->seating.n_seats, sizeof *run->gaps);
    run->workers = ft_arena_array(run->arena, b->cut.n_devices, sizeof *run->workers);
    run->states = ft_arena_array(run->arena, b->n_params + 1, sizeof *run->states);
    run->mirrors = ft_arena_array(run->arena, b->n_params + 1, sizeof *run->mirrors);
    run->output_mirrors = ft_arena_array(run->arena, b->n_outputs + 1, sizeof(char *));
    run->told_outputs = ft_arena_array(run->arena, b->n_outputs + 1, sizeof(char *));
    if (!run->gaps || !run->mirrors || !run->output_mirrors || !run->told_outputs || !run->states ||
        !run->seats || !run->edges || !run->batches || !run->results || !run->workers)
        return ft_fail(err, FT_NOMEM, "engine: no memory for a run");
    for (int d = 0; d < b->cut.n_devices; d++) {
        if (run->trains) {
            borrow_block(run, d);
            continue;
        }
        FT_TRY(allocate_block(run, d, err));
        FT_TRY(hearing_open(&run->workers[d], err));
    }
    for (int s = 0; s < b->seating.n_seats; s++) {
        FT_TRY(point_seat(run, s, err));
        FT_TRY(compile(run, s, err));
    }
    for (int p = 0; !run->trains && p < b->n_params; p++)
        if (owner_is_here(run, p)) run->states[p] = owner_block(run, p) + b->params[p].state_at;
    FT_TRY(ledger_new(run, err));
    FT_TRY(moves_open(run, err));
    FT_TRY(units_open(run, err));
    FT_TRY(remotes_open(run, err));
    FT_TRY(ranks_open(run, err));
    if (run->world) ft_world_on_ask(run->world, tell_rest, run);
    return run->trains ? FT_OK : guards_write(run, true, err);
}

static bool is_lost(const ft_run *run)
{
    return run->lost || (run->evaluation && run->evaluation->lost);
}

static void free_run(ft_run *run)
{
    if (!run || is_lost(run)) return;
    if (run->active) ft_run_end(run, NULL);
    free_run(run->evaluation);
    ranks_close(run);
    remotes_close(run);
    moves_close(run);
    units_close(run);
    free_programs(run);
    for (int d = 0; run->workers && !run->trains && d < run->n_devices; d++)
        close_device(&run->workers[d]);
    ft_timeline_free(run->timeline);
    pthread_mutex_destroy(&run->error_lock);
    ft_arena_free(run->arena);
}

void ft_run_free(ft_run *run)
{
    if (!run || is_lost(run)) return;
    if (run->active) ft_run_end(run, NULL);
    ranks_end(run);
    free_run(run);
}

void ft_run_close(ft_run *run)
{
    if (!run || is_lost(run)) return;
    if (run->evaluation) ft_run_end(run->evaluation, NULL);
    ft_run_end(run, NULL);
    if (run->evaluation) ranks_end(run->evaluation);
    ranks_end(run);
    for (int d = 0; d < run->n_devices; d++)
        if (run->workers[d].findings) release_block(&run->workers[d]);
}

/* This process's devices: those of its rank. */
static ft_status find_home(ft_run *run, const ft_blueprint *b, ft_error *err)
{
    int last = 0, size = run->world ? ft_world_size(run->world) : 1;
    run->home = -1;
    run->rank = run->world ? ft_world_rank(run->world) : 0;
    for (int d = 0; d < b->cut.n_devices; d++) {
        const ft_device *device = &b->cut.devices[d];
        if (device->rank > last) last = device->rank;
        if (device->rank == run->rank && run->home < 0) run->home = d;
    }
    if (last + 1 == size && run->home >= 0) return FT_OK;
    return ft_fail(err, FT_INVALID,
                   "the devices are of %d processes, and %d %s started: expected as many of them, "
                   "or devices of %d",
                   last + 1, size, size == 1 ? "was" : "were", size);
}

static ft_status new_run(ft_run **out, const ft_blueprint *blueprint, ft_world *world,
                         ft_transport transport, const char *swap_dir, ft_run *trains,
                         ft_error *err)
{
    *out = NULL;
    FT_TRY(ft_run_check(blueprint, err));
    ft_arena *arena = ft_arena_new();
    ft_run *run = arena ? ft_arena_alloc(arena, sizeof *run) : NULL;
    if (!run) {
        ft_arena_free(arena);
        return ft_fail(err, FT_NOMEM, "engine: no memory for a run");
    }
    run->arena = arena;
    run->trains = trains;
    run->world = world;
    run->transport = transport;
    run->swap_dir = swap_dir;
    pthread_mutex_init(&run->error_lock, NULL);
    ft_status status = find_home(run, blueprint, err);
    if (status == FT_OK) status = build(run, blueprint, err);
    if (status == FT_OK && blueprint->evaluation)
        status = new_run(&run->evaluation, blueprint->evaluation, world, transport, NULL, run, err);
    if (status == FT_OK)
        *out = run;
    else
        free_run(run);
    return status;
}

ft_status ft_run_new(ft_run **out, const ft_blueprint *blueprint, ft_error *err)
{
    return ft_run_join(out, blueprint, NULL, FT_CHANNELS_IF_ANY, NULL, err);
}

/* CPU devices have budgets each, which may be what somebody said: what those of one machine take
 * together has to be there. */
static ft_status check_machine(const ft_blueprint *b, const ft_world *world, ft_error *err)
{
    int64_t sum = 0, has = ft_cpu_memory_bytes();
    for (int d = 0; d < b->cut.n_devices; d++) {
        const ft_device *device = &b->cut.devices[d];
        bool near = !world || ft_world_is_near(world, device->rank);
        if (near && device->kind == FT_DEVICE_CPU) sum += b->blocks[d].total;
    }
    if (sum <= has) return FT_OK;
    return ft_fail(err, FT_INFEASIBLE,
                   "the devices of this machine need %.1f MB of memory together, it has %.1f MB: "
                   "expected fewer of them on one machine, or a plan that needs less",
                   (double)sum / 1e6, (double)has / 1e6);
}

ft_status ft_run_join(ft_run **out, const ft_blueprint *blueprint, ft_world *world,
                      ft_transport transport, const char *swap_dir, ft_error *err)
{
    *out = NULL;
    ft_status status = ft_blueprint_check_memory(blueprint, err);
    if (status == FT_OK) status = check_machine(blueprint, world, err);
    if (status == FT_OK) status = new_run(out, blueprint, world, transport, swap_dir, NULL, err);
    if (status == FT_OK) status = ranks_meet(*out, err);
    if (status == FT_OK && (*out)->evaluation) status = ranks_meet((*out)->evaluation, err);
    if (status != FT_OK && *out) free_run(*out);
    if (status != FT_OK) *out = NULL;
    if (status != FT_OK && world && !ft_world_rank(world)) ranks_free(world);
    return status;
}

ft_status ft_run_check_channels(const ft_device *devices, int n, int rank, ft_error *err)
{
    for (int d = 0; d < n; d++) {
        const ft_driver *driver = devices[d].driver;
        if (devices[d].rank == rank && driver && driver->name_channel)
            FT_TRY(channel_check(driver, err));
    }
    return FT_OK;
}

ft_status ft_run_check_swap_room(const ft_blueprint *blueprint, const char *dir, ft_error *err)
{
    return disks_check(blueprint, dir, err);
}

double ft_run_swap_rate(const ft_run *run)
{
    return disks_rate(run);
}

ft_run *ft_run_evaluation(ft_run *run)
{
    return run->evaluation;
}

int ft_run_n_params(const ft_run *run)
{
    return run->blueprint->n_params;
}

int ft_run_n_devices(const ft_run *run)
{
    return run->n_devices;
}

/* -- parameters -------------------------------------------------------------------------------- */

ft_status ft_run_fetch(ft_run *run, int param, bool with_state, ft_error *err)
{
    return fetch_mirror(run, param, with_state, err);
}

ft_view ft_run_param(const ft_run *run, int param)
{
    return ft_view_of(&run->blueprint->params[param].spec, mirrored_param(run, param));
}

const char *ft_run_state_name(const ft_run *run, int param, int part)
{
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = 0;
    if (!run->blueprint->params[param].n_terms || part < 0) return NULL;
    return part < ft_blueprint_state(run->blueprint, param, parts, &bytes) ? parts[part].name
                                                                           : NULL;
}

bool ft_run_state(const ft_run *run, int param, int part, const char **name, ft_view *out)
{
    const ft_blueprint *b = run->blueprint;
    const ft_param_layout *info = &b->params[param];
    ft_state_part parts[FT_MAX_STATE_PARTS];
    int64_t bytes = 0;
    if (!info->n_terms) return false;
    int n = ft_blueprint_state(b, param, parts, &bytes);
    if (part < 0 || part >= n) return false;
    *name = parts[part].name;
    *out = ft_view_of(&parts[part].spec, mirrored_state(run, param) + parts[part].offset);
    return true;
}

/* What a replica has of what another one owns: the weights and, where it knows it, the state. From
 * the owner; where that is elsewhere, from the mirror, or rank 0 brought it already. */
static ft_status copy_replica(ft_run *run, int s, int i, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const ft_seat_param *sp = &b->seats[s].params[i];
    int owner = b->seats[b->params[sp->param].owner].device;
    worker *w = &run->workers[b->seats[s].device];
    bool away = !owner_is_here(run, sp->param);
    if (sp->with_state) keep_state_copy(w, s, i);
    if (away && run->rank) return FT_OK;
    if (away) FT_TRY(ft_run_fetch(run, sp->param, true, err));
    const mirror *m = &run->mirrors[sp->param];
    ft_location weights =
        away ? (ft_location){NULL, m->param} : at_device(run, owner, param_at(run, sp->param));
    ft_location state =
        away ? (ft_location){NULL, m->state} : at_device(run, owner, run->states[sp->param]);
    FT_TRY(copy_on(w->compute, at_device(run, w->device, run->seats[s].params[sp->param]), weights,
                   ft_spec_bytes(&b->params[sp->param].spec), err));
    if (!sp->with_state) return FT_OK;
    return copy_on(w->compute, at_device(run, w->device, known_state(run, s, sp->param)), state,
                   ft_blueprint_state_bytes(b, sp->param), err);
}

ft_status ft_run_refresh(ft_run *run, ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    if (leg_is_under_way(run)) return ft_fail(err, FT_INVALID, "engine: a leg is running");
    for (int p = 0; p < b->n_params; p++)
        if (owner_is_here(run, p)) FT_TRY(return_mirror(run, p, err));
    FT_TRY(finish_streams(run, err));
    for (int p = 0; leads(run) && p < b->n_params; p++) FT_TRY(ranks_store(run, p, err));
    for (int s = 0; s < b->seating.n_seats; s++) {
        const ft_seat_layout *seat = &b->seats[s];
        worker *w = &run->workers[seat->device];
        if (!seat_is_here(run, s)) continue;
        for (int i = 0; i < seat->n_params; i++) {
            const ft_seat_param *sp = &seat->params[i];
            int64_t bytes = ft_spec_bytes(&b->params[sp->param].spec);
            if (sp->replica) FT_TRY(copy_replica(run, s, i, err));
            if (sp->owned || sp->replica)
                ledger_keep(w, s, FT_MEMORY_WEIGHTS, &run->seats[s].kept_params[i], bytes);
        }
        FT_TRY(pack_weights(run, s, ~0U, err));
    }
    FT_TRY(finish_streams(run, err));
    return leads(run) ? ranks_refresh(run, err) : FT_OK;
}

/* -- measuring --------------------------------------------------------------------------------- */

int64_t ft_run_measured(const ft_run *run, int device, int64_t bytes[FT_MEMORY_CLASSES])
{
    const worker *w = &run->workers[device];
    int64_t total = atomic_load_explicit(&w->high[LIVE_TOGETHER], memory_order_relaxed);
    for (int c = 0; c < FT_MEMORY_CLASSES; c++) {
        bytes[c] = atomic_load_explicit(&w->high[c], memory_order_relaxed);
        total += bytes[c];
        bytes[c] += atomic_load_explicit(&w->high[LIVE_MOVING + c], memory_order_relaxed);
    }
    return total;
}

bool ft_run_take_remark(ft_run *run, int device, char *text, size_t size)
{
    ft_executor *x = run->workers[device].executor;
    if (!x || !x->remark[0]) return false;
    snprintf(text, size, "%s", x->remark);
    x->remark[0] = '\0';
    return true;
}

int64_t ft_run_allocations(const ft_run *run)
{
    int64_t n = 0;
    for (int d = 0; d < run->blueprint->cut.n_devices; d++) n += run->workers[d].allocations;
    return n;
}

const ft_timeline *ft_run_timeline(const ft_run *run)
{
    return run->timeline;
}
