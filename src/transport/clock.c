/* transport/clock.c - how far the clocks of two processes are apart.
 *
 * A beat says when it was sent and, of the last one that came the other way, when that was sent and
 * for how long it has been here. So who hears it knows what the way there and back took: the other
 * clock was read half of that ago, give or take the other half, whatever each way took. */
#include "base/clock.h"
#include "transport/world.h"

/* Clocks of quartz run apart by this much at most: a sight of the past is as much less sure. */
static const double DRIFT = 1e-4;

void clock_note(sight *best, const stamp *heard, int64_t now_ns)
{
    if (!heard->echo_ns) return; /* nothing has come there yet */
    int64_t half = (now_ns - heard->echo_ns - heard->held_ns) / 2;
    if (half < 0) return; /* nobody of ours has said so */
    double aged = (double)best->error_ns + DRIFT * (double)(now_ns - best->seen_ns);
    if (best->seen_ns && aged <= (double)half) return;
    *best = (sight){
        .offset_ns = heard->sent_ns - (now_ns - half), .error_ns = half + 1, .seen_ns = now_ns};
}

bool clock_read(const sight *best, int64_t now_ns, int64_t *offset_ns, int64_t *error_ns)
{
    if (!best->seen_ns) return false;
    *offset_ns = best->offset_ns;
    *error_ns = best->error_ns + (int64_t)(DRIFT * (double)(now_ns - best->seen_ns));
    return true;
}

bool ft_world_clock(ft_world *w, int rank, int64_t *offset_ns, int64_t *error_ns)
{
    *offset_ns = *error_ns = 0;
    if (ft_world_is_near(w, rank)) return true;
    pthread_mutex_lock(&w->carrying);
    bool known = clock_read(&w->peers[rank].clock, ft_now_ns(), offset_ns, error_ns);
    pthread_mutex_unlock(&w->carrying);
    return known;
}
