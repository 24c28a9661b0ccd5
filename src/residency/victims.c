/* residency/victims.c - what leaves a device first.
 *
 * What is needed furthest in the future goes (Belady's rule; with sizes and costs of saving it is a
 * heuristic), and where leaving and coming again are two copies, it counts as half as far. How far
 * an item is changes from action to action, but not which of two of one cost is farther. So items
 * lie in rows, one for each cost, by their next use, and only the farthest of each row are
 * compared: work grows with the logarithm of what may leave.
 *
 * In an order that repeats this takes neighbours out one behind the other, whose copies then stand
 * together: see turn_of. */
#include <math.h>

#include "residency/internal.h"

/* In the order in which they lie in the tree; the first two by item, the others by next use. */
typedef enum { FREE, ONCE, AGAIN, TWICE, ROWS } row;

bool victims_begin(planner *p)
{
    int64_t places = 2 * ((int64_t)p->n_items + p->first_use[p->n]);
    victims *v = &p->victims;
    for (v->size = 1; v->size < places;) v->size *= 2;
    v->first = ft_arena_array(p->arena, 2 * v->size, sizeof *v->first);
    v->place = ft_arena_array(p->arena, p->n_items + 1, sizeof *v->place);
    if (!v->first || !v->place) return false;
    for (int k = 0; k < p->n_items; k++) v->place[k] = -1;
    return true;
}

static int64_t row_begin(const planner *p, row r)
{
    return r < AGAIN ? r * (int64_t)p->n_items
                     : 2 * (int64_t)p->n_items + (r - AGAIN) * p->first_use[p->n];
}

/* What leaving and coming again costs, in copies. */
static row row_of(const item *i)
{
    bool saved = i->is_dirty && !i->is_dead && !i->is_made, loaded = i->next >= 0 && !i->is_dead;
    if (loaded) return saved ? TWICE : AGAIN;
    return saved ? ONCE : FREE;
}

/* -- scores ------------------------------------------------------------------------------------ */

/* Of a turn that has 2^32 parts: the golden ratio, whose multiples lie evenly however many of them
 * are taken, and what moves the classes of a stage apart. */
#define GOLDEN 2654435769u
#define APART  1589137899u

/* Distances count by powers of two where what leaves is spread; of items that are about as far,
 * those of the largest multiples go. These are the same in every batch, and not of neighbours. */
static uint32_t turn_of(const planner *p, int number)
{
    const item *i = &p->items[number];
    return p->q->spreads ? (uint32_t)i->stage * GOLDEN + (uint32_t)i->class * APART : 0;
}

/* Of items of one score. Of activations of one stage the one that is needed later: their numbers
 * are others in the next batch, which is to go as this one. */
static bool comes_first(const planner *p, int a, int b)
{
    const item *of_a = &p->items[a], *of_b = &p->items[b];
    bool alike = of_a->stage == of_b->stage && of_a->class == of_b->class;
    return alike && of_a->next != of_b->next ? of_a->next > of_b->next : a < b;
}

/* Of items of one score but for their turns, as numbers and 1, 0: none. */
static int first_of(const planner *p, int a, int b)
{
    if (!a || !b) return a ? a : b;
    uint32_t turn_a = turn_of(p, a - 1), turn_b = turn_of(p, b - 1);
    if (turn_a != turn_b) return turn_a > turn_b ? a : b;
    return comes_first(p, a - 1, b - 1) ? a : b;
}

static int power_of(double score)
{
    int power;
    frexp(score, &power);
    return power;
}

static double score_of(const planner *p, row r, int number, int64_t at)
{
    double n = (double)p->n, score = r == FREE ? 2 * n : n;
    if (r >= AGAIN) score = (double)(p->uses[p->items[number].next].at - at) / (r - AGAIN + 1);
    return p->q->spreads ? power_of(score) + (double)turn_of(p, number) / 4294967296.0 : score;
}

/* The first use of a row whose distance counts as that of the use does. */
static int64_t as_far_as(const planner *p, row r, int64_t number, int64_t at)
{
    int64_t there = p->uses[number].at;
    int cost = r - AGAIN + 1;
    if (p->q->spreads) {
        int power = power_of((double)(there - at) / cost);
        there = at + (int64_t)ceil(ldexp(cost, power - 1));
    }
    return p->first_use[there];
}

/* -- the tree ---------------------------------------------------------------------------------- */

static void set(planner *p, int64_t place, int first)
{
    victims *v = &p->victims;
    v->first[v->size + place] = first;
    for (int64_t node = (v->size + place) / 2; node; node /= 2, v->looks++)
        v->first[node] = first_of(p, v->first[2 * node], v->first[2 * node + 1]);
}

/* Of places from `from` to before `to`. */
static int first_in(planner *p, int64_t from, int64_t to)
{
    victims *v = &p->victims;
    int first = 0;
    for (from += v->size, to += v->size; from < to; from /= 2, to /= 2, v->looks++) {
        if (from % 2) first = first_of(p, first, v->first[from++]);
        if (to % 2) first = first_of(p, first, v->first[--to]);
    }
    return first;
}

/* The last place before `to` where something is; -1: there is none. */
static int64_t last_before(planner *p, int64_t to)
{
    victims *v = &p->victims;
    int64_t node = v->size + to - 1;
    for (; !v->first[node]; v->looks++) {
        for (; node > 1 && node % 2 == 0; v->looks++) node /= 2; /* all before it is farther up */
        if (node == 1) return -1;
        node--;
    }
    for (; node < v->size; v->looks++) node = 2 * node + (v->first[2 * node + 1] != 0);
    return node - v->size;
}

/* -- items ------------------------------------------------------------------------------------- */

void victims_remove(planner *p, int number)
{
    int64_t place = p->victims.place[number];
    if (place >= 0) set(p, place, 0);
    p->victims.place[number] = -1;
}

void victims_add(planner *p, int number)
{
    row r = row_of(&p->items[number]);
    victims_remove(p, number);
    int64_t place = row_begin(p, r) + (r < AGAIN ? number : p->items[number].next);
    p->victims.place[number] = place;
    set(p, place, number + 1);
}

int victims_find(planner *p, int64_t at)
{
    int best = -1;
    double most = -1;
    for (row r = FREE; r < ROWS; r++) {
        int64_t from = row_begin(p, r), to = row_begin(p, r + 1);
        if (r >= AGAIN) {
            int64_t last = last_before(p, to);
            if (last < from) continue;
            to = last + 1;
            from += as_far_as(p, r, last - from, at);
        }
        int number = first_in(p, from, to) - 1;
        if (number < 0) continue;
        double score = score_of(p, r, number, at);
        if (score < most || (score == most && comes_first(p, best, number))) continue;
        most = score;
        best = number;
    }
    return best;
}
