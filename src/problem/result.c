/* problem/result.c - what a placement costs under a cost model. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "problem/ground.h"

void ft_partition_result_free(ft_partition_result *result)
{
    ft_arena_free(result->memory);
    *result = (ft_partition_result){0};
}

static ft_status allocate_result(const ft_ground *g, ft_partition_result *r, ft_error *err)
{
    ft_arena *arena = r->memory ? r->memory : ft_arena_new();
    if (!arena) return ft_ground_no_memory(g, err);
    r->memory = arena;
    r->stage = ft_arena_array(arena, g->n, sizeof *r->stage);
    r->device = ft_arena_array(arena, g->n, sizeof *r->device);
    r->stage_device = ft_arena_array(arena, g->n, sizeof *r->stage_device);
    r->stage_replicas = ft_arena_array(arena, g->n, sizeof *r->stage_replicas);
    r->loads = ft_arena_array(arena, g->problem->n_devices, sizeof *r->loads);
    if (!r->stage || !r->device || !r->stage_device || !r->stage_replicas || !r->loads)
        return ft_ground_no_memory(g, err);
    return FT_OK;
}

/* What is sent to more than one device counts again for each of them. */
static bool add_copies(const ft_ground *g, const int *unit_device, ft_load *sums)
{
    int *seen = ft_arena_array(g->arena, g->problem->n_devices, sizeof *seen);
    if (!seen) return false;
    for (int at = 0; at < g->n_nets; at++) {
        const ft_net *v = &g->nets[at];
        int spread = 0;
        for (int i = 0; i < v->n_units; i++) {
            int *last = &seen[unit_device[v->units[i]]];
            spread += *last != at + 1;
            *last = at + 1;
        }
        if (spread > 2) sums[unit_device[v->maker]].out += (spread - 2) * v->bytes;
    }
    return true;
}

/* Sums of every device, clones included. */
static bool sum_devices(const ft_ground *g, const int *unit_device, ft_load *sums)
{
    int *held = ft_arena_array(g->arena, g->n_nets + 1, sizeof *held);
    int *first = ft_arena_array(g->arena, g->problem->n_devices + 2, sizeof *first);
    int *units = ft_arena_array(g->arena, g->n_units, sizeof *units);
    if (!held || !first || !units) return false;
    for (int u = 0; u < g->n_units; u++) first[unit_device[u] + 2]++;
    for (int d = 2; d <= g->problem->n_devices; d++) first[d] += first[d - 1];
    for (int u = 0; u < g->n_units; u++) units[first[unit_device[u] + 1]++] = u;
    for (int d = 0; d < g->problem->n_devices; d++)
        for (int pass = 0; pass < 2; pass++) {
            ft_load discarded = {.out = 0};
            for (int i = first[d]; i < first[d + 1]; i++)
                ft_load_change(g, pass ? &discarded : &sums[d], held, units[i], pass ? -1 : 1);
        }
    return !g->cost->each_destination || add_copies(g, unit_device, sums);
}

static ft_status sum_memory(const ft_ground *g, const ft_load *sums, ft_partition_result *r,
                            ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    if (p->swaps) {
        int64_t *bytes = ft_arena_array(g->arena, p->n_devices, sizeof *bytes);
        if (!bytes || !ft_pack_memory(g, r, bytes)) return ft_ground_no_memory(g, err);
        for (int d = 0; d < p->n_devices; d++) r->loads[d].memory_bytes = bytes[d];
        return FT_OK;
    }
    for (int d = 0; d < p->n_devices; d++) r->loads[d].memory_bytes = sums[d].fixed;
    for (int i = 0; p->saved_bytes && i < g->n; i++)
        r->loads[r->device[i]].memory_bytes +=
            ft_ground_in_flight(g, r->stage[i], r->n_stages) * p->saved_bytes[i];
    return FT_OK;
}

static ft_status price_devices(const ft_ground *g, const ft_load *sums, ft_partition_result *r,
                               ft_error *err)
{
    const ft_partition_problem *p = g->problem;
    ft_status status = FT_OK;
    int last = r->stage_device[r->n_stages - 1];
    for (int s = 0; s < r->n_stages; s++) r->loads[r->stage_device[s]].n_stages++;
    FT_TRY(sum_memory(g, sums, r, err));
    for (int d = 0; d < p->n_devices; d++) {
        ft_partition_load *out = &r->loads[d];
        ft_load own = sums[d];
        int kind = p->devices[d].kind;
        if (d == last) own.ns[kind] -= ft_stages_gain_ns(g, r->stage, r->n_stages - 1, kind);
        out->compute_ns = own.ns[kind] * p->devices[d].slowdown;
        out->out_bytes = own.out;
        out->out_grad_bytes = own.out_grad;
        out->in_bytes = own.in;
        out->in_grad_bytes = own.in_grad;
        out->price_ns = ft_load_price(g, &own, d, false);
        r->objective_ns = fmax(r->objective_ns, out->price_ns);
        r->moved_bytes += own.in + own.out_grad;
        if (p->devices[d].memory_bytes && out->memory_bytes > p->devices[d].memory_bytes &&
            status == FT_OK)
            status = ft_fail(err, FT_INFEASIBLE, "partition: device %d needs %s, it has %s", d,
                             ft_text_of_bytes(out->memory_bytes).text,
                             ft_text_of_bytes(p->devices[d].memory_bytes).text);
    }
    return status;
}

/* Copies stages, numbered without gaps. */
static void copy_stages(const ft_ground *g, const int *stage_of, ft_partition_result *r)
{
    int *number = r->stage_replicas, n = 0; /* borrowed: filled last */
    for (int i = 0; i < g->n; i++) number[stage_of[i]] = 1;
    for (int s = 0; s < g->n; s++)
        if (number[s]) number[s] = n++;
    for (int i = 0; i < g->n; i++) {
        r->stage[i] = number[stage_of[i]];
        r->stage_device[r->stage[i]] = r->device[i];
    }
    r->n_stages = n;
}

ft_status ft_result_make(const ft_ground *g, const int *unit_device, const int *stage_of,
                         ft_partition_result *r, ft_error *err)
{
    FT_TRY(allocate_result(g, r, err));
    ft_load *sums = ft_arena_array(g->arena, g->problem->n_devices, sizeof *sums);
    if (!sums) return ft_ground_no_memory(g, err);
    for (int i = 0; i < g->n; i++) r->device[i] = unit_device[g->unit[i]];
    if (stage_of) {
        copy_stages(g, stage_of, r);
    } else {
        r->n_stages = ft_stages_make(g, unit_device, 0, r->stage, r->stage_device);
        if (r->n_stages < 0) return ft_ground_no_memory(g, err);
    }
    for (int s = 0; s < r->n_stages; s++) r->stage_replicas[s] = 1;
    if (!sum_devices(g, unit_device, sums)) return ft_ground_no_memory(g, err);
    r->objective_ns = 0;
    r->moved_bytes = 0;
    r->lower_bound_ns = g->lower_bound_ns;
    return price_devices(g, sums, r, err);
}
