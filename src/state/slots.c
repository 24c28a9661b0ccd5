/* state/slots.c - which place of a row an action takes from or fills, and where it is. */
#include "state/slots.h"

/* That of its micro-batch or batch; of what goes apart, how many went before it. */
int64_t place_number(const ft_run *run, ft_row_end at, const ft_action *a)
{
    if (at.row == FT_ROW_MADE && run->blueprint->cargoes[at.edge].apart)
        return ft_gate_count(&run->edges[at.edge].rows[at.row].freed);
    return ft_blueprint_slot_index(run->blueprint, at.edge, a);
}

char *row_place(const ft_run *run, ft_row_end at, const ft_action *a)
{
    const ft_cargo *c = &run->blueprint->cargoes[at.edge];
    const ft_row *row = &c->rows[at.row];
    int64_t number = place_number(run, at, a);
    char *box = at.row == FT_ROW_EDGE ? run->edges[at.edge].box : NULL;
    char *first = box ? box : run->workers[row->device].block + row->base;
    return first + number % row->n * c->slot_bytes;
}

row_state *slots_row(const ft_run *run, ft_row_end at)
{
    int e = at.row == FT_ROW_EDGE ? run->blueprint->cargoes[at.edge].slots_of : at.edge;
    return &run->edges[e].rows[at.row];
}

ft_row_end made_in(const ft_run *run, ft_row_end at)
{
    const ft_cargo *c = &run->blueprint->cargoes[at.edge];
    bool waits = at.row == FT_ROW_EDGE && c->apart && c->rows[FT_ROW_MADE].n;
    return waits ? (ft_row_end){at.edge, FT_ROW_MADE} : at;
}
