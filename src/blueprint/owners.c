/* blueprint/owners.c - who updates which parameter.
 *
 * A parameter is owned by the stage among its users that is the furthest from the loss, so that
 * stages wait for each other in one direction, and nobody needs a weight before its owner has it.
 * Of a stage with replicas each owns a part, parameter by parameter, so that sums, updates and
 * traffic are spread. Others that use it send their gradient terms to the owner once per batch and
 * take over its new value once per batch: into a copy of their own when they are on another device,
 * in place when they share the owner's. A copy of what is not trained stays as it was loaded. */
#include <stdlib.h>

#include "blueprint/internal.h"

bool blueprint_seat_uses(const ft_blueprint *b, int seat, int param)
{
    const ft_stage *cut = b->seats[seat].cut[0];
    for (int i = 0; i < cut->n_params; i++)
        if (cut->params[i] == param) return true;
    return false;
}

/* As many rounds as there are stages reach a fixed point because a split has no cycle. */
void blueprint_find_depths(const ft_blueprint *b, int *depth)
{
    const ft_split *split = b->splits[0];
    for (int round = 0; round < split->n_stages; round++)
        for (int i = 0; i < split->n_transfers; i++) {
            const ft_transfer *t = &split->transfers[i];
            if (t->phase == FT_FORWARD && depth[t->from] < depth[t->to] + 1)
                depth[t->from] = depth[t->to] + 1;
        }
}

/* Of the stages of the plan with a term: the deepest, then the first. Without terms: the first
 * user.
 */
static int find_owner(const ft_blueprint *b, int param, const int *depth)
{
    const ft_param_layout *p = &b->params[param];
    int owner = p->n_terms ? b->term_stage[p->terms[0]] : -1;
    for (int t = 1; t < p->n_terms; t++) {
        int s = b->term_stage[p->terms[t]];
        if (depth[s] > depth[owner] || (depth[s] == depth[owner] && s < owner)) owner = s;
    }
    if (owner >= 0) return owner;
    for (int s = 0; s < b->seating.n_seats; s++)
        if (blueprint_seat_uses(b, s, param)) return b->seats[s].stage;
    return 0; /* used nowhere: kept and saved all the same */
}

/* -- replicas ---------------------------------------------------------------------------------- */

typedef struct share {
    int64_t bytes;
    int param;
} share;

static int compare_shares(const void *a, const void *b)
{
    const share *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->param > y->param) - (x->param < y->param);
}

/* Of a stage's replicas the one that has the least until then, of equals that whose device has the
 * least of all stages. */
static int find_least(const ft_blueprint *b, int stage, const int64_t *of_seat,
                      const int64_t *of_device)
{
    const ft_stage_share *all = &b->seating.of[stage];
    int least = all->first;
    for (int s = all->first + 1; s < all->first + all->n; s++) {
        int64_t less = of_seat[least] - of_seat[s];
        if (!less) less = of_device[b->seats[least].device] - of_device[b->seats[s].device];
        if (less > 0) least = s;
    }
    return least;
}

/* The largest parameter first. */
static ft_status deal_owners(ft_blueprint *b, ft_error *err)
{
    share *shares = ft_arena_array(b->arena, b->n_params + 1, sizeof *shares);
    int64_t *of_seat = ft_arena_array(b->arena, b->seating.n_seats, sizeof *of_seat);
    int64_t *of_device = ft_arena_array(b->arena, b->cut.n_devices, sizeof *of_device);
    if (!shares || !of_seat || !of_device) return no_memory(err);
    for (int p = 0; p < b->n_params; p++) {
        const ft_param_layout *info = &b->params[p];
        shares[p] = (share){info->n_terms ? ft_spec_bytes(&info->spec) : 0, p};
    }
    qsort(shares, (size_t)b->n_params, sizeof *shares, compare_shares);
    for (int i = 0; i < b->n_params; i++) {
        ft_param_layout *info = &b->params[shares[i].param];
        info->owner = find_least(b, info->owner, of_seat, of_device);
        of_seat[info->owner] += shares[i].bytes;
        of_device[b->seats[info->owner].device] += shares[i].bytes;
    }
    return FT_OK;
}

/* -- all of them ------------------------------------------------------------------------------- */

static ft_status list_params(ft_blueprint *b, int s, ft_error *err)
{
    ft_seat_layout *seat = &b->seats[s];
    seat->params = ft_arena_array(b->arena, b->n_params + 1, sizeof *seat->params);
    if (!seat->params) return no_memory(err);
    for (int p = 0; p < b->n_params; p++) {
        int owner = b->params[p].owner;
        bool changes = b->params[p].n_terms, knows = seat->predicts || seat->attenuates;
        if (owner != s && !blueprint_seat_uses(b, s, p)) continue;
        seat->params[seat->n_params++] = (ft_seat_param){
            .param = p,
            .owned = owner == s,
            .replica =
                owner != s && ((b->cut.keeps && changes) || b->seats[owner].device != seat->device),
            .with_state = owner != s && changes && knows && b->seats[owner].stage == seat->stage};
    }
    return FT_OK;
}

ft_status blueprint_find_owners(ft_blueprint *b, ft_error *err)
{
    const ft_graph *g = b->cut.graphs[0];
    b->params = ft_arena_array(b->arena, b->n_params + 1, sizeof *b->params);
    b->term_stage = ft_arena_array(b->arena, b->n_terms + 1, sizeof(int));
    int *terms = ft_arena_array(b->arena, b->n_terms + 1, sizeof(int));
    if (!b->params || !b->term_stage || !terms) return no_memory(err);
    for (int t = 0; t < b->n_terms; t++) {
        const ft_grad_term *term = ft_graph_grad_term(g, t);
        b->term_stage[t] = b->splits[0]->node_stage[term->node];
        b->params[term->param].n_terms++;
    }
    for (int p = 0; p < b->n_params; p++) {
        ft_param_layout *info = &b->params[p];
        const ft_value *value = ft_graph_value(g, ft_graph_param_value(g, p));
        info->name = value->name;
        info->spec = value->spec;
        info->terms = terms;
        terms += info->n_terms;
        info->n_terms = 0;
    }
    for (int t = 0; t < b->n_terms; t++) {
        ft_param_layout *info = &b->params[ft_graph_grad_term(g, t)->param];
        info->terms[info->n_terms++] = t;
    }
    int *depth = ft_arena_array(b->arena, b->seating.n_stages, sizeof(int));
    if (!depth) return no_memory(err);
    blueprint_find_depths(b, depth);
    for (int p = 0; p < b->n_params; p++) b->params[p].owner = find_owner(b, p, depth);
    FT_TRY(deal_owners(b, err));
    for (int s = 0; s < b->seating.n_seats; s++) FT_TRY(list_params(b, s, err));
    return FT_OK;
}
