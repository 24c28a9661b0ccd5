/* stays/prove.c - a leg replayed: nothing comes to where something else is. */
#include "base/alloc.h"
#include "stays/internal.h"

/* What is on a device. */
typedef struct resident {
    const ft_unit *unit;
    int64_t micro; /* in the leg; of activations alone */
    int64_t at;
} resident;

typedef struct proof {
    const ft_stays *stays;
    const ft_plan *leg;
    int device, n;
    resident *there;
} proof;

static const char *class_of(const ft_unit *u)
{
    return ft_memory_classes[u->class].name;
}

static ft_status arrive(proof *p, const ft_unit *u, int64_t micro, int stay, ft_error *err)
{
    const ft_stays *stays = p->stays;
    const ft_stays_part *part = &stays->parts[p->device];
    int64_t bytes = ft_place_bytes(u->bytes);
    int stage = stays_stage(stays, u);
    if (stay < 1 || stay > stays->n || stays->of[stay].unit != u)
        return ft_fail(err, FT_INVALID,
                       "the %s of stage %d have no place: the leg is of another plan", class_of(u),
                       stage);
    int64_t at = stays->of[stay].at;
    if (at < part->begin || at + bytes > part->begin + part->bytes)
        return ft_fail(err, FT_INVALID, "the %s of stage %d lie outside their part of the block",
                       class_of(u), stage);
    for (int i = 0; i < p->n; i++) {
        const ft_unit *other = p->there[i].unit;
        int64_t begin = p->there[i].at, end = begin + ft_place_bytes(other->bytes);
        if (at >= end || begin >= at + bytes) continue;
        return ft_fail(err, FT_INVALID,
                       "the %s of stage %d would come to where the %s of stage %d are: in a leg "
                       "of %d batches they have not left; give what leaves the number of the batch "
                       "that needs it last",
                       class_of(u), stage, class_of(other), stays_stage(stays, other),
                       p->leg->n_batches);
    }
    p->there[p->n++] = (resident){u, micro, at};
    return FT_OK;
}

static int find_resident(const proof *p, const ft_unit *u, int64_t micro)
{
    int i = 0;
    while (i < p->n && (p->there[i].unit != u || p->there[i].micro != micro)) i++;
    return i;
}

static void depart(proof *p, const ft_unit *u, int64_t micro)
{
    int k = find_resident(p, u, micro);
    if (k < p->n) p->there[k] = p->there[--p->n];
}

static ft_status prove_device(proof *p, ft_error *err)
{
    const ft_stays *stays = p->stays;
    int d = p->device;
    for (int s = 0; s < stays->seating->n_seats; s++)
        for (int c = 0; stays->seating->seat_device[s] == d && c < FT_MEMORY_CLASSES; c++) {
            const ft_unit *u = stays->units[s][c];
            if (u && u->starts) FT_TRY(arrive(p, u, 0, u->first_stay, err));
        }
    for (int64_t i = 0; i < ft_plan_length(p->leg, d); i++) {
        ft_action a = ft_seated(stays->seating, d, ft_plan_at(p->leg, d, i));
        const ft_unit *u = stays_unit(stays, &a), *ended = stays_ended(stays, &a);
        int64_t index = ft_seat_index(stays->seating, &a);
        int64_t micro = u && u->class == FT_MEMORY_ACTIVATIONS ? index : 0;
        if (u && ft_action_leaves(&a))
            depart(p, u, micro);
        else if (u && find_resident(p, u, micro) == p->n)
            FT_TRY(arrive(p, u, micro, a.stay, err));
        if (ended) depart(p, ended, index);
    }
    return FT_OK;
}

ft_status ft_stays_prove(const ft_stays *stays, const ft_plan *leg, ft_error *err)
{
    if (!stays->n) return FT_OK;
    int n_seats = stays->seating->n_seats;
    int64_t most = (int64_t)n_seats * FT_MEMORY_CLASSES;
    for (int s = 0; s < n_seats; s++) most += stays->window[s];
    proof p = {.stays = stays, .leg = leg};
    p.there = ft_alloc(most * (int64_t)sizeof *p.there);
    if (!p.there) return ft_fail(err, FT_NOMEM, "no memory to prove where what moves lies");
    ft_status status = FT_OK;
    for (; status == FT_OK && p.device < leg->n_devices; p.device++) {
        p.n = 0;
        status = prove_device(&p, err);
    }
    ft_free(p.there);
    return status;
}
