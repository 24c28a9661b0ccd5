/* state/here.c - which of a run's devices are of this process; how all of them here are stopped. */
#include "state/here.h"

bool is_here(const ft_run *run, int device)
{
    return run->blueprint->cut.devices[device].rank == run->rank;
}

bool seat_is_here(const ft_run *run, int seat)
{
    return is_here(run, run->blueprint->seats[seat].device);
}

int rank_of_seat(const ft_run *run, int seat)
{
    return run->blueprint->cut.devices[run->blueprint->seats[seat].device].rank;
}

bool owner_is_here(const ft_run *run, int param)
{
    return seat_is_here(run, run->blueprint->params[param].owner);
}

char *param_at(const ft_run *run, int param)
{
    return run->seats[run->blueprint->params[param].owner].params[param];
}

bool leg_is_under_way(const ft_run *run)
{
    const ft_run *other = run->trains ? run->trains : run->evaluation;
    return run->active || (other && other->active);
}

void run_stop(ft_run *run, const ft_error *error)
{
    pthread_mutex_lock(&run->error_lock);
    if (run->error.status == FT_OK) run->error = *error;
    pthread_mutex_unlock(&run->error_lock);
    atomic_store(&run->stop, true);
    for (int e = 0; e < run->n_edges; e++) {
        ft_channel *channel = run->edges[e].channel;
        if (channel) channel->executor->driver->cut_channel(channel);
        for (int r = 0; r < FT_ROWS; r++) {
            ft_gate_wake(&run->edges[e].rows[r].filled);
            ft_gate_wake(&run->edges[e].rows[r].freed);
        }
    }
    ft_gate_wake(&run->fed_gate);
    ft_gate_wake(&run->done_gate);
}
