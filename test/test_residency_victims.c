/* test/test_residency_victims.c - what leaves first, against a look at every item, and how much is
 * looked at. */
#include "base/rng.h"
#include "check.h"
#include "residency/internal.h"

enum { AROUND = 5 }; /* stages whose items an action needs, of the same class most often */

static int below(ft_rng *rng, int64_t n)
{
    return (int)ft_rng_below(rng, (uint64_t)n);
}

/* Items of stages one after the other, two of a class; every action needs some of them. */
static bool make_planner(planner *p, ft_residency *q, int n_stages, int64_t n, ft_rng *rng)
{
    int64_t *last;
    *q = (ft_residency){.spreads = below(rng, 2)};
    *p = (planner){.q = q, .arena = ft_arena_new(), .n = n, .n_items = 2 * n_stages};
    if (!p->arena) return false;
    p->items = ft_arena_array(p->arena, p->n_items, sizeof *p->items);
    p->uses = ft_arena_array(p->arena, 2 * n, sizeof *p->uses);
    p->first_use = ft_arena_array(p->arena, n + 1, sizeof *p->first_use);
    last = ft_arena_array(p->arena, p->n_items, sizeof *last);
    if (!p->items || !p->uses || !p->first_use || !last) return false;
    for (int k = 0; k < p->n_items; k++) {
        p->items[k] = (item){.stage = k / 4, .class = k / 2 % 2, .next = -1, .stay = -1};
        p->items[k].is_made = below(rng, 4) == 0;
        last[k] = -1;
    }
    for (int64_t at = 0, u = 0; at < n; at++) {
        int one = below(rng, p->n_items), two = (one + 1 + below(rng, AROUND)) % p->n_items;
        p->first_use[at] = u;
        for (int i = 0; i < 1 + below(rng, 2); i++, u++) {
            int k = i ? two : one;
            p->uses[u] = (use){.at = at, .item = k, .later = -1};
            if (last[k] >= 0) p->uses[last[k]].later = u;
            last[k] = u;
        }
        p->first_use[at + 1] = u;
    }
    return victims_begin(p);
}

static bool is_needed(const planner *p, int number, int64_t at)
{
    for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++)
        if (p->uses[u].item == number) return true;
    return false;
}

/* By definition: the highest score of all; of equals the one that is needed last, then the first.
 */
static int look_at_all(const planner *p, int64_t at)
{
    int best = -1;
    double most = -1;
    for (int k = 0; k < p->n_items; k++) {
        const item *i = &p->items[k];
        if (i->stay < 0 || is_needed(p, k, at)) continue;
        bool again = i->next >= 0;
        double far = again ? (double)(p->uses[i->next].at - at) : (double)p->n;
        int copies = (i->is_dirty && !i->is_dead && !i->is_made) + (again && !i->is_dead), power;
        double score = copies ? far / copies : 2.0 * (double)p->n;
        frexp(score, &power);
        uint32_t turn = (uint32_t)i->stage * 2654435769u + (uint32_t)i->class * 1589137899u;
        if (p->q->spreads) score = power + (double)turn / 4294967296.0;
        bool alike = best >= 0 && best / 2 == k / 2;
        if (score < most || (score == most && !(alike && i->next > p->items[best].next))) continue;
        most = score;
        best = k;
    }
    return best;
}

/* Goes through the list as a planner does, and takes items out now and then. Returns how many were
 * taken; each is the one that looking at all finds, where that is asked for. */
static int walk(planner *p, ft_rng *rng, int room, bool compare)
{
    int open = 0, taken = 0;
    for (int64_t at = 0; at < p->n; at++) {
        for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++) {
            item *i = &p->items[p->uses[u].item];
            victims_remove(p, p->uses[u].item);
            open += i->stay < 0;
            i->next = p->uses[u].later;
            i->stay = 0;
            i->is_dirty = below(rng, 2);
            i->is_dead = below(rng, 4) == 0;
        }
        while (open > room) {
            int number = victims_find(p, at);
            if (compare && !CHECK(number == look_at_all(p, at))) return 0;
            if (!CHECK(number >= 0 && p->items[number].stay == 0)) return 0;
            victims_remove(p, number);
            p->items[number].stay = -1;
            open--;
            taken++;
        }
        for (int64_t u = p->first_use[at]; u < p->first_use[at + 1]; u++)
            victims_add(p, p->uses[u].item);
    }
    return taken;
}

static void test_every_item_is_as_if_looked_at(void)
{
    int taken = 0;
    for (int seed = 0; seed < CASES(200); seed++) {
        ft_rng rng;
        ft_residency q;
        planner p;
        ft_rng_init(&rng, 31, (uint64_t)seed);
        if (CHECK(make_planner(&p, &q, 5 + below(&rng, 30), 20 + below(&rng, 400), &rng)))
            taken += walk(&p, &rng, 3 + below(&rng, p.n_items - 4), true);
        ft_arena_free(p.arena);
    }
    CHECK(taken > CASES(200) * 20);
}

/* Of twice as many items and actions little more than twice as much is looked at. */
static void test_work_is_in_proportion(void)
{
    double before = 0;
    for (int n = 1000; n <= 16000; n *= 2) {
        ft_rng rng;
        ft_residency q;
        planner p;
        ft_rng_init(&rng, 32, 0);
        if (!CHECK(make_planner(&p, &q, n / 2, 4 * (int64_t)n, &rng))) return;
        int taken = walk(&p, &rng, n / 2, false);
        double looks = (double)p.victims.looks / n;
        printf("%d items, %lld actions, %d leave: %lld nodes are looked at, %lld items by looking "
               "at all\n",
               n, (long long)p.n, taken, (long long)p.victims.looks, (long long)taken * n);
        CHECK(taken > n);
        if (before > 0) CHECK(looks < 1.2 * before);
        before = looks;
        ft_arena_free(p.arena);
    }
}

int main(void)
{
    RUN(test_every_item_is_as_if_looked_at);
    RUN(test_work_is_in_proportion);
    return check_report();
}
