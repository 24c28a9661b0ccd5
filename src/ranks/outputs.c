/* ranks/outputs.c - the outputs of forwards alone: where their parts are, and brought together. */
#include <string.h>

#include "ranks/outputs.h"

/* Parts of an output are in the order of the replicas. */
static bool is_first(const ft_blueprint *b, int part)
{
    return !b->seats[b->outputs[part].seat].replica;
}

int count_outputs(const ft_blueprint *b)
{
    int n = 0;
    for (int part = 0; part < b->n_outputs; part++) n += is_first(b, part);
    return n;
}

int first_part(const ft_blueprint *b, int output)
{
    int part = 0;
    while (!is_first(b, part) || output-- > 0) part++;
    return part;
}

char *part_at(const ft_run *run, int part, int64_t ring)
{
    const ft_output_layout *out = &run->blueprint->outputs[part];
    const worker *w = &run->workers[run->blueprint->seats[out->seat].device];
    char *first = run->told_outputs[part];
    if (!first) first = w->block + out->at;
    return first + ring * out->slot_bytes;
}

ft_status gather_output(ft_run *run, int first, int64_t ring, int64_t bytes, char *to,
                        ft_error *err)
{
    const ft_blueprint *b = run->blueprint;
    const ft_stage_share *of = &b->seating.of[b->seats[b->outputs[first].seat].stage];
    for (int m = 0; m < b->cut.micro_batches; m++) {
        int part = first + ft_share_replica(of, m);
        int device = b->seats[b->outputs[part].seat].device;
        char *from = part_at(run, part, ring) + ft_share_local(of, m) * bytes;
        ft_device_stream *feeder = run->workers[device].feeder; /* NULL: of another process */
        if (!feeder) {
            memcpy(to + m * bytes, from, (size_t)bytes);
            continue;
        }
        FT_TRY(copy_on(feeder, (ft_location){NULL, to + m * bytes}, at_device(run, device, from),
                       bytes, err));
        FT_TRY(feeder->executor->driver->finish(feeder, err));
    }
    return FT_OK;
}
