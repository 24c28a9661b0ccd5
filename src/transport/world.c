/* transport/world.c - meeting the other processes, and what callers ask of the world. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "transport/world.h"

/* -- meeting ----------------------------------------------------------------------------------- */

static void read_line(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    if (file && fgets(out, (int)size, file)) out[strcspn(out, "\n")] = 0;
    if (file) fclose(file);
}

/* The machine as processes see it: its boot, and the space of process numbers. */
static void describe_self(hello *h, const ft_world_self *self)
{
    char boot[48] = "", space[40] = "";
    memset(h, 0, sizeof *h);
    if (gethostname(h->host, sizeof h->host - 1) != 0) snprintf(h->host, sizeof h->host, "?");
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (n < 0) space[0] = 0;
    snprintf(h->machine, sizeof h->machine, "%s %s", boot, space);
    describe_build(self->version, h->build, sizeof h->build);
    h->pid = getpid();
    h->memory_bytes = self->memory_bytes;
    snprintf(h->processor, sizeof h->processor, "%s", self->processor);
}

static ft_status check_builds(const ft_world *w, ft_error *err)
{
    const hello *first = &w->peers[0].hello;
    for (int r = 1; r < w->size; r++)
        if (strcmp(w->peers[r].hello.build, first->build) != 0)
            return ft_fail(err, FT_INVALID,
                           "rank %d (host %s) runs ftpipe %s, rank 0 (host %s) runs %s: the "
                           "processes of a run are of one program",
                           r, w->peers[r].hello.host, w->peers[r].hello.build, first->host,
                           first->build);
    return FT_OK;
}

/* Rank 0 waits for a hello of every other one, which waits for its answer and so for longer. */
static int64_t hello_ms(const ft_world *w)
{
    enum { ANSWER_MS = 2000 };
    return w->hello_ms + (w->rank ? ANSWER_MS : 0);
}

static ft_status miss_hellos(const ft_world *w, ft_error *err)
{
    char names[512] = "";
    size_t n = 0;
    for (int r = 0; r < (w->rank ? 1 : w->size) && n < sizeof names; r++)
        if (!w->peers[r].hello.pid)
            n += (size_t)snprintf(names + n, sizeof names - n, "%srank %d", n ? ", " : "", r);
    return ft_fail(err, FT_HANG, "no hello has come within %d s from %s", (int)hello_ms(w) / 1000,
                   names);
}

/* A letter of the world's own. */
static ft_status take_hello(ft_world *w, int64_t until_ns, ft_letter *letter, ft_error *err)
{
    bool got = false;
    int64_t left_ns = until_ns - ft_now_ns();
    FT_TRY(ft_world_take(w, TAG_HELLO, left_ns > 0 ? left_ns : 0, letter, &got, err));
    if (!got) return miss_hellos(w, err);
    int64_t wanted = (w->rank ? w->size : 1) * (int64_t)sizeof(hello);
    if (letter->bytes == wanted) return FT_OK;
    int from = letter->peer;
    ft_world_drop(w, letter);
    return ft_fail(err, FT_INVALID, "rank %d runs another version of ftpipe", from);
}

/* At rank 0: everybody says who it is, and hears of all. */
static ft_status hear_hellos(ft_world *w, int64_t until_ns, ft_error *err)
{
    ft_letter letter;
    for (int n = 1; n < w->size; n++) {
        FT_TRY(take_hello(w, until_ns, &letter, err));
        memcpy(&w->peers[letter.peer].hello, letter.data, sizeof(hello));
        ft_world_drop(w, &letter);
    }
    int64_t bytes = w->size * (int64_t)sizeof(hello);
    hello *all = ft_alloc(bytes);
    if (!all) return ft_fail(err, FT_NOMEM, "no memory for %d processes", w->size);
    for (int r = 0; r < w->size; r++) all[r] = w->peers[r].hello;
    for (int r = 1; r < w->size; r++) ft_world_send(w, r, TAG_HELLO, all, bytes, true);
    ft_free(all);
    return FT_OK;
}

static ft_status say_hello(ft_world *w, int64_t until_ns, ft_error *err)
{
    ft_letter letter;
    ft_world_send(w, 0, TAG_HELLO, &w->peers[w->rank].hello, sizeof(hello), true);
    FT_TRY(take_hello(w, until_ns, &letter, err));
    for (int r = 0; r < w->size; r++)
        memcpy(&w->peers[r].hello, letter.data + r * sizeof(hello), sizeof(hello));
    ft_world_drop(w, &letter);
    return FT_OK;
}

static ft_status meet(ft_world *w, const ft_world_self *self, ft_error *err)
{
    ft_error error;
    int64_t until_ns = ft_now_ns() + hello_ms(w) * 1000000;
    describe_self(&w->peers[w->rank].hello, self);
    ft_status status = w->rank ? say_hello(w, until_ns, &error) : hear_hellos(w, until_ns, &error);
    if (status == FT_OK) return check_builds(w, err);
    if (!w->rank) world_tell_loss(w, 0, &error); /* who said hello waits for an answer */
    if (err) *err = error;
    return status;
}

static ft_status open_world(ft_world **out, const ft_world_self *self, ft_world_say *says,
                            int64_t limit_ms, ft_error *err)
{
    *out = NULL;
    const ft_mpi *mpi = NULL;
    int rank = 0, size = 1;
    FT_TRY(load_mpi(&mpi, err));
    int rc = mpi->open(&rank, &size);
    if (rc < 0) {
        char words[160] = "";
        mpi->words(-rc, words, sizeof words);
        return ft_fail(err, FT_DEVICE, "MPI does not start: %s", words);
    }
    ft_world *w = ft_alloc(sizeof *w);
    if (w) w->peers = ft_alloc(size * (int64_t)sizeof *w->peers);
    if (w) w->ends = ft_alloc(size * (int64_t)sizeof *w->ends);
    if (!w || !w->peers || !w->ends) {
        mpi->close();
        if (w) ft_free(w->peers);
        if (w) ft_free(w->ends);
        ft_free(w);
        return ft_fail(err, FT_NOMEM, "no memory for %d processes", size);
    }
    w->mpi = mpi;
    w->says = says;
    w->hello_ms = limit_ms;
    w->rank = rank;
    w->size = size;
    for (int r = 0; r < size; r++) w->ends[r].fd = -1;
    pthread_mutex_init(&w->carrying, NULL);
    pthread_mutex_init(&w->lock, NULL);
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* ns: naps between looks are short */
    *out = w;
    ft_status status = meet(w, self, err);
    if (status == FT_OK) {
        watch_open(w);
        status = ft_thread_start(&w->helper, world_help, w, err);
        w->helps = status == FT_OK;
    }
    if (status == FT_OK) return FT_OK;
    world_fail(w, err ? err : &(ft_error){status, "no world"});
    return status;
}

/* Says once that others have not come; MPI itself waits for them without a word. */
typedef struct vigil {
    ft_gate over;
    ft_world_say *says;
} vigil;

enum { LATE_S = 8 };

static void *keep_vigil(void *arg)
{
    vigil *v = arg;
    char host[FT_HOST_NAME] = "?", line[FT_HOST_NAME + 80];
    if (ft_gate_wait(&v->over, 1, NULL, LATE_S * INT64_C(1000000000))) return NULL;
    gethostname(host, sizeof host - 1);
    snprintf(line, sizeof line, "host %s has waited %d s for the other processes of the run", host,
             LATE_S);
    v->says(line);
    return NULL;
}

ft_status world_open_within(ft_world **out, const ft_world_self *self, ft_world_say *says,
                            int64_t limit_ms, ft_error *err)
{
    vigil v = {.says = says};
    pthread_t keeper;
    bool kept = ft_thread_start(&keeper, keep_vigil, &v, NULL) == FT_OK;
    ft_status status = open_world(out, self, says, limit_ms, err);
    ft_gate_open(&v.over);
    if (kept) pthread_join(keeper, NULL);
    return status;
}

ft_status ft_world_open(ft_world **out, const ft_world_self *self, ft_world_say *says,
                        ft_error *err)
{
    return world_open_within(out, self, says, HELLO_MS, err);
}

static const int64_t LEAVE_NS = INT64_C(10000000000); /* that others have to leave */
enum { NAP_NS = 100000 };                             /* between two looks */

/* Whether all that was to be sent is sent. */
static bool is_sent(ft_world *w)
{
    pthread_mutex_lock(&w->carrying);
    if (!atomic_load(&w->failed)) world_carry(w);
    pthread_mutex_lock(&w->lock);
    bool sent = !w->waiting.n && !w->sends.n;
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_unlock(&w->carrying);
    return sent;
}

void world_flush(ft_world *w, int64_t limit_ns)
{
    int64_t start = ft_now_ns();
    while (!is_sent(w) && !atomic_load(&w->failed) &&
           (limit_ns < 0 || ft_now_ns() - start < limit_ns))
        ft_sleep_until_ns(ft_now_ns() + NAP_NS);
}

/* Waits for so many goodbyes; false when the others do not come. */
static bool hear_byes(ft_world *w, int n)
{
    ft_letter letter;
    bool got = true;
    for (int i = 0; i < n && got; i++) {
        if (ft_world_take(w, TAG_BYE, LEAVE_NS, &letter, &got, NULL) != FT_OK) return false;
        if (got) ft_world_drop(w, &letter);
    }
    return got;
}

/* Nobody goes before all want to: who ends earlier would be missed by the rest. Rank 0 misses them
 * until it has heard of all. */
static void part(ft_world *w)
{
    if (w->rank) {
        atomic_store(&w->parts, true);
        ft_world_send(w, 0, TAG_BYE, NULL, 0, false);
        hear_byes(w, 1);
    } else if (hear_byes(w, w->size - 1)) {
        atomic_store(&w->parts, true);
        for (int r = 1; r < w->size; r++) ft_world_send(w, r, TAG_BYE, NULL, 0, false);
    }
    world_flush(w, LEAVE_NS);
}

/* Whether MPI has the message's last piece, or one before it in the same copy. */
static bool is_begun(const ft_world *w, int last)
{
    const sending *all = w->sends.items;
    bool begun = all[last].request != NULL;
    for (int i = 0; i < last && !begun; i++) {
        uintptr_t own = (uintptr_t)all[last].own, at = (uintptr_t)all[i].data;
        begun = all[i].request && at >= own && at < (uintptr_t)all[last].data;
    }
    return begun;
}

/* Letters that nobody took or that had not come, and copies that did not leave; what MPI was given
 * is MPI's after a failure, and has a request. */
static void free_messages(ft_world *w)
{
    for (int i = 0; i < w->letters.n; i++) ft_free(((ft_letter *)w->letters.items)[i].data);
    for (int i = 0; i < w->waiting.n; i++) ft_free(((sending *)w->waiting.items)[i].own);
    for (int i = 0; i < w->sends.n; i++)
        if (!is_begun(w, i)) ft_free(((sending *)w->sends.items)[i].own);
    for (int i = 0; i < w->receives.n; i++) { /* as beats that come while the world ends */
        const receiving *r = &((receiving *)w->receives.items)[i];
        if (!r->heard && !(atomic_load(&w->failed) && r->request)) ft_free(r->data);
    }
}

void ft_world_close(ft_world *w)
{
    if (!w) return;
    if (!atomic_load(&w->failed)) part(w);
    atomic_store(&w->stop, true);
    if (w->helps) pthread_join(w->helper, NULL);
    watch_close(w);
    if (!atomic_load(&w->failed)) w->mpi->close();
    free_messages(w);
    ft_free(w->letters.items);
    ft_free(w->waiting.items);
    ft_free(w->sends.items);
    ft_free(w->receives.items);
    ft_free(w->partials.items);
    const partial *begun = w->begun_letters.items;
    for (int i = 0; i < w->begun_letters.n; i++) ft_free(begun[i].base);
    ft_free(w->begun_letters.items);
    ft_free(w->peers);
    ft_free(w->ends);
    ft_free(w);
}

/* -- who --------------------------------------------------------------------------------------- */

int ft_world_rank(const ft_world *w)
{
    return w->rank;
}

int ft_world_size(const ft_world *w)
{
    return w->size;
}

const char *ft_world_host(const ft_world *w, int rank)
{
    return w->peers[rank].hello.host;
}

const char *ft_world_processor(const ft_world *w, int rank)
{
    return w->peers[rank].hello.processor;
}

void ft_world_library(const ft_world *w, char *out, int size)
{
    w->mpi->library(out, size);
}

/* -- messages ---------------------------------------------------------------------------------- */

void ft_world_send(ft_world *w, int to, int tag, const void *data, int64_t bytes, bool copies)
{
    char *own = copies ? ft_alloc(bytes) : NULL;
    const char *at = own ? own : data;
    if (own && bytes) memcpy(own, data, (size_t)bytes);
    pthread_mutex_lock(&w->lock);
    int before = w->waiting.n;
    bool whole = !copies || own;
    for (int64_t left = bytes; whole; left -= PIECE, at += PIECE) {
        sending *s = list_add(&w->waiting, sizeof *s);
        bool last = left < PIECE;
        whole = s != NULL;
        if (s)
            *s = (sending){.peer = to,
                           .tag = tag,
                           .bytes = last ? (int)left : PIECE,
                           .data = at,
                           .own = last ? own : NULL};
        if (last) break;
    }
    if (!whole) w->waiting.n = before; /* nobody has taken a piece of it */
    pthread_mutex_unlock(&w->lock);
    if (whole) {
        ft_world_progress(w);
        return;
    }
    ft_free(own);
    world_fail_memory(w);
}

ft_status ft_world_listen(ft_world *w, const ft_receiver *receiver, ft_error *err)
{
    pthread_mutex_lock(&w->carrying);
    bool room = w->n_receivers < FT_WORLD_RECEIVERS;
    if (room) w->receivers[w->n_receivers++] = *receiver;
    pthread_mutex_unlock(&w->carrying);
    return room ? FT_OK : ft_fail(err, FT_INVALID, "too many who listen to other processes");
}

/* Carries messages on; whether one is on its way into the memory of that user. */
static bool carry_to(ft_world *w, const void *user)
{
    pthread_mutex_lock(&w->carrying);
    world_carry(w);
    bool comes = world_receives(w, user);
    pthread_mutex_unlock(&w->carrying);
    return comes;
}

void ft_world_forget(ft_world *w, const void *user)
{
    pthread_mutex_lock(&w->carrying);
    int kept = 0;
    for (int i = 0; i < w->n_receivers; i++)
        if (w->receivers[i].user != user) w->receivers[kept++] = w->receivers[i];
    w->n_receivers = kept;
    pthread_mutex_unlock(&w->carrying);
    while (carry_to(w, user) && !atomic_load(&w->failed)) ft_sleep_until_ns(ft_now_ns() + NAP_NS);
    world_flush(w, -1); /* what is sent may be in the memory of that user */
}

static bool find_letter(ft_world *w, int tag, ft_letter *out)
{
    bool found = false;
    pthread_mutex_lock(&w->lock);
    ft_letter *all = w->letters.items;
    for (int i = 0; i < w->letters.n && !found; i++) {
        if (all[i].tag != tag) continue;
        *out = all[i];
        list_remove(&w->letters, i, sizeof *all);
        found = true;
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}

/* Between two looks for a letter: a short nap soon after another letter, for more may follow;
 * longer later, and where others work here, which look as the helper does and wake who waits: each
 * look takes a core from one of them. */
static int64_t letter_nap(const ft_world *w, int64_t waited_ns)
{
    enum { FIRST_NAP_NS = 100000, LAST_NAP_NS = 20000000 };
    int64_t nap = !w->helps ? 0 : atomic_load(&w->working) ? LAST_NAP_NS : waited_ns / 8;
    return nap < FIRST_NAP_NS ? FIRST_NAP_NS : nap > LAST_NAP_NS ? LAST_NAP_NS : nap;
}

ft_status ft_world_take(ft_world *w, int tag, int64_t timeout_ns, ft_letter *out, bool *got,
                        ft_error *err)
{
    int64_t start = ft_now_ns(), stirred = start;
    for (;;) {
        uint32_t came = ft_gate_count(&w->came);
        ft_world_progress(w);
        *got = find_letter(w, tag, out);
        if (*got) return FT_OK;
        FT_TRY(ft_world_health(w, err));
        int64_t now = ft_now_ns();
        if (timeout_ns >= 0 && now - start >= timeout_ns) return FT_OK;
        if (ft_gate_nap(&w->came, came + 1, letter_nap(w, now - stirred))) stirred = ft_now_ns();
    }
}

void ft_world_works(ft_world *w, bool begins)
{
    if (begins)
        atomic_fetch_add(&w->working, 1);
    else if (atomic_fetch_sub(&w->working, 1) == 1)
        ft_gate_open(&w->came);
}

void ft_world_drop(ft_world *w, ft_letter *letter)
{
    (void)w;
    ft_free(letter->data);
    letter->data = NULL;
}

void ft_world_name(const ft_world *w, int rank, ft_error *failure)
{
    ft_error_wrap(failure, "rank %d (host %s)", rank, ft_world_host(w, rank));
}

ft_status ft_world_take_reply(ft_world *w, int tag, ft_letter *out, ft_error *theirs, ft_error *err)
{
    bool got;
    FT_TRY(ft_world_take(w, tag, -1, out, &got, err));
    memcpy(theirs, out->data, sizeof *theirs);
    if (theirs->status != FT_OK) ft_world_name(w, out->peer, theirs);
    return FT_OK;
}

ft_status ft_world_take_replies(ft_world *w, int tag,
                                void (*hear)(void *user, int rank, char *data), void *user,
                                ft_error *err)
{
    ft_error first = {FT_OK, ""};
    for (int i = 1; i < w->size; i++) {
        ft_letter letter;
        ft_error theirs;
        FT_TRY(ft_world_take_reply(w, tag, &letter, &theirs, err));
        if (theirs.status == FT_OK && hear) hear(user, letter.peer, letter.data + sizeof theirs);
        if (first.status == FT_OK) first = theirs;
        ft_world_drop(w, &letter);
    }
    if (first.status != FT_OK && err) *err = first;
    return first.status;
}

void ft_world_progress(ft_world *w)
{
    if (pthread_mutex_trylock(&w->carrying) != 0) return;
    world_carry(w);
    pthread_mutex_unlock(&w->carrying);
}

bool ft_world_wait(ft_world *w, ft_gate *gate, uint32_t target, const atomic_bool *stop,
                   int64_t timeout_ns)
{
    enum { SPIN_NS = 50000, FIRST_NAP_NS = 20000, LAST_NAP_NS = 1000000 };
    int64_t start = ft_now_ns(), nap = FIRST_NAP_NS;
    for (;;) {
        if ((int32_t)(ft_gate_count(gate) - target) >= 0) return true;
        if (stop && atomic_load_explicit(stop, memory_order_acquire)) return false;
        ft_world_progress(w);
        int64_t waited = ft_now_ns() - start;
        if (timeout_ns >= 0 && waited >= timeout_ns) return false;
        if (waited < SPIN_NS) continue;
        if (waited > 500 * nap && nap < LAST_NAP_NS) nap *= 2;
        ft_gate_nap(gate, target, nap);
    }
}

ft_status ft_world_await(ft_world *w, ft_gate *gate, uint32_t target, const atomic_bool *stop,
                         int64_t timeout_ns, bool *met, ft_error *err)
{
    enum { SLICE_NS = 100000000 };
    int64_t start = ft_now_ns();
    do {
        *met = ft_world_wait(w, gate, target, stop, SLICE_NS);
        if (*met) return FT_OK;
        FT_TRY(ft_world_health(w, err));
        if (stop && atomic_load(stop)) return FT_OK;
    } while (timeout_ns < 0 || ft_now_ns() - start < timeout_ns);
    return FT_OK;
}

/* -- failures ---------------------------------------------------------------------------------- */

static void say_loss(const ft_world *w)
{
    char line[sizeof w->failure.message + sizeof w->remark + 4];
    snprintf(line, sizeof line, "%s%s%s", w->failure.message, w->remark[0] ? "; " : "", w->remark);
    w->says(line);
}

void world_fail(ft_world *w, const ft_error *error)
{
    pthread_mutex_lock(&w->lock);
    bool first = w->failure.status == FT_OK;
    if (first) w->failure = *error;
    if (first && error->status == FT_HANG) say_loss(w); /* before anybody acts on it, and may end */
    atomic_store(&w->failed, true);
    if (first && w->fails) w->fails(w->fails_user, error);
    pthread_mutex_unlock(&w->lock);
    ft_gate_open(&w->came);
}

void ft_world_remark(ft_world *w, const char *words)
{
    pthread_mutex_lock(&w->lock);
    snprintf(w->remark, sizeof w->remark, "%s", words ? words : "");
    pthread_mutex_unlock(&w->lock);
}

ft_status ft_world_health(ft_world *w, ft_error *err)
{
    if (!atomic_load_explicit(&w->failed, memory_order_acquire)) return FT_OK;
    pthread_mutex_lock(&w->lock);
    if (err) *err = w->failure;
    ft_status status = w->failure.status;
    pthread_mutex_unlock(&w->lock);
    return status;
}

void ft_world_on_failure(ft_world *w, void (*fails)(void *user, const ft_error *error), void *user)
{
    pthread_mutex_lock(&w->lock);
    w->fails = fails;
    w->fails_user = user;
    if (fails && w->failure.status != FT_OK) fails(user, &w->failure);
    pthread_mutex_unlock(&w->lock);
}

void ft_world_on_ask(ft_world *w, void (*tells)(void *user, char out[FT_AT_WORDS]), void *user)
{
    pthread_mutex_lock(&w->lock);
    w->tells = tells;
    w->tells_user = user;
    pthread_mutex_unlock(&w->lock);
}

void ft_world_off_ask(ft_world *w, const void *user)
{
    pthread_mutex_lock(&w->lock);
    if (w->tells_user == user) {
        w->tells = NULL;
        w->tells_user = NULL;
    }
    pthread_mutex_unlock(&w->lock);
}

void ft_world_give_up(ft_world *w, const ft_error *why)
{
    if (atomic_load(&w->failed)) return;
    world_tell_loss(w, w->rank, why);
    world_fail(w, why);
}
