/* state/disk.c - what moves between devices and a file, through a piece of host memory for each
 * way.
 *
 * A device's copies of one way are one after the other, so there is one piece for each: on the
 * stream in, a read into it stands before the copy out of it, on the stream out the other way
 * around. A unit is read after its write has ended, as after any copy home. */
#include "state/disk.h"

#include <string.h>

#include "base/alloc.h"
#include "io/io.h"
#include "state/here.h"
#include "state/state.h"

typedef struct disk_file {
    ft_swap_file *file;
    ft_executor *executor;
    char *pieces[2]; /* what was read; what will be written */
    int64_t piece_bytes, bytes, taken;
} disk_file;

struct disk_home {
    ft_run *run;
    disk_file *disk;
    int64_t at, bytes;
    uint64_t sum; /* of what was written last; by the stream out, then by the stream in */
};

static bool may_lie_there(const ft_unit *unit)
{
    bool wanted = unit->class == FT_MEMORY_WEIGHTS || unit->class == FT_MEMORY_OPTIMIZER;
    return wanted && unit->goes_home;
}

bool disk_has(const ft_run *run, const ft_unit *unit)
{
    return run->swap_dir && may_lie_there(unit);
}

/* What devices of a rank have on disk. */
static void count_units(const ft_blueprint *b, int rank, disk_file *disks)
{
    for (int i = 0; i < b->seating.n_seats * FT_MEMORY_CLASSES; i++) {
        const ft_unit *u = b->seats[i / FT_MEMORY_CLASSES].units[i % FT_MEMORY_CLASSES];
        int device = b->seats[i / FT_MEMORY_CLASSES].device;
        if (!u || !may_lie_there(u) || b->cut.devices[device].rank != rank) continue;
        int64_t bytes = ft_memory_round(u->bytes) + FT_GUARD_BYTES;
        disks[device].bytes += bytes;
        if (bytes > disks[device].piece_bytes) disks[device].piece_bytes = bytes;
    }
}

ft_status disks_check(const ft_blueprint *b, const char *dir, ft_error *err)
{
    int n = b->stays.n ? b->cut.n_devices : 0;
    disk_file *disks = ft_alloc(n * (int64_t)sizeof *disks);
    int64_t *bytes = ft_alloc(n * (int64_t)sizeof *bytes);
    ft_status status = FT_OK;
    if (!disks || !bytes) status = ft_fail(err, FT_NOMEM, "engine: no memory for swap files");
    if (status == FT_OK && n) count_units(b, 0, disks);
    for (int d = 0; d < n && status == FT_OK; d++) bytes[d] = disks[d].bytes;
    if (status == FT_OK) status = ft_swap_room(dir, bytes, n, err);
    ft_free(disks);
    ft_free(bytes);
    return status;
}

static ft_status open_disk(ft_run *run, int d, ft_error *err)
{
    disk_file *disk = &run->disks[d];
    disk->executor = run->workers[d].executor;
    FT_TRY(ft_swap_file_open(&disk->file, run->swap_dir, disk->bytes, err));
    for (int way = 0; way < 2; way++) {
        void *piece = NULL;
        FT_TRY(disk->executor->driver->alloc(disk->executor, FT_OF_HOST, disk->piece_bytes, &piece,
                                             err));
        disk->pieces[way] = piece;
    }
    return FT_OK;
}

ft_status disks_open(ft_run *run, ft_error *err)
{
    if (!run->swap_dir) return FT_OK;
    run->disks = ft_arena_array(run->arena, run->n_devices, sizeof *run->disks);
    if (!run->disks) return ft_fail(err, FT_NOMEM, "engine: no memory for swap files");
    count_units(run->blueprint, run->rank, run->disks);
    for (int d = 0; d < run->n_devices; d++)
        if (run->disks[d].bytes) FT_TRY(open_disk(run, d, err));
    return FT_OK;
}

void disks_close(ft_run *run)
{
    for (int d = 0; run->disks && d < run->n_devices; d++) {
        disk_file *disk = &run->disks[d];
        for (int way = 0; way < 2; way++)
            if (disk->pieces[way])
                disk->executor->driver->release(disk->executor, FT_OF_HOST, disk->pieces[way],
                                                disk->piece_bytes);
        ft_swap_file_close(disk->file);
    }
}

double disks_rate(const ft_run *run)
{
    double least = 0;
    for (int d = 0; run->disks && d < run->n_devices; d++) {
        const ft_swap_file *file = run->disks[d].file;
        double rate = file ? ft_swap_file_rate(file) : 0;
        if (file && (!least || rate < least)) least = rate;
    }
    return least;
}

ft_status disk_take(ft_run *run, int device, int64_t bytes, disk_home **out, ft_error *err)
{
    disk_file *disk = &run->disks[device];
    *out = ft_arena_alloc(run->arena, sizeof **out);
    if (!*out) return ft_fail(err, FT_NOMEM, "engine: no memory for swap files");
    **out = (disk_home){.run = run, .disk = disk, .at = disk->taken, .bytes = bytes};
    disk->taken += bytes;
    return FT_OK;
}

char *disk_address(const disk_home *home)
{
    return ft_swap_file_at(home->disk->file, home->at);
}

void disk_begin(disk_home *home)
{
    home->sum = ft_swap_file_sum(disk_address(home), home->bytes);
    ft_swap_file_rest(home->disk->file);
}

ft_status disk_end(const disk_home *home, const char **bytes, ft_error *err)
{
    *bytes = home->disk->pieces[0];
    return ft_swap_file_read(home->disk->file, home->at, home->disk->pieces[0], home->bytes,
                             home->sum, err);
}

/* -- in the order of streams ------------------------------------------------------------------- */

static void stop_at(ft_run *run, ft_status status, const ft_error *error)
{
    if (status != FT_OK) run_stop(run, error);
}

static void read_home(void *arg)
{
    disk_home *h = arg;
    ft_error error = {FT_OK, ""};
    stop_at(h->run,
            ft_swap_file_read(h->disk->file, h->at, h->disk->pieces[0], h->bytes, h->sum, &error),
            &error);
}

static void write_home(void *arg)
{
    disk_home *h = arg;
    ft_error error = {FT_OK, ""};
    h->sum = ft_swap_file_sum(h->disk->pieces[1], h->bytes);
    stop_at(h->run, ft_swap_file_write(h->disk->file, h->at, h->disk->pieces[1], h->bytes, &error),
            &error);
}

ft_status disk_load(disk_home *home, ft_device_stream *stream, ft_location to, ft_error *err)
{
    const ft_location piece = {NULL, home->disk->pieces[0]};
    FT_TRY(stream->executor->driver->call(stream, read_home, home, err));
    return copy_on(stream, to, piece, home->bytes, err);
}

ft_status disk_save(disk_home *home, ft_device_stream *stream, ft_location from, ft_error *err)
{
    const ft_location piece = {NULL, home->disk->pieces[1]};
    FT_TRY(copy_on(stream, piece, from, home->bytes, err));
    return stream->executor->driver->call(stream, write_home, home, err);
}
