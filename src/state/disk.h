/* state/disk.h - homes of units in a file: of weights and optimizer state. */
#ifndef FT_STATE_DISK_H
#define FT_STATE_DISK_H

#include "state/run.h"

/* A place in the file of a device. */
typedef struct disk_home disk_home;

/* Whether a unit has its home on disk. */
bool disk_has(const ft_run *run, const ft_unit *unit);
/* Opens a file for each device here with such units, of the size that they need. Nobody else has
 * it, so that runs may share a directory. */
ft_status disks_open(ft_run *run, ft_error *err);
/* What disks_open would find no room for, of a run of one process; opens nothing. */
ft_status disks_check(const ft_blueprint *blueprint, const char *dir, ft_error *err);
void disks_close(ft_run *run);
/* Bytes per second that the slowest was written with when it was opened; 0: there is none. */
double disks_rate(const ft_run *run);
/* The next place in the device's file, of so many bytes. */
ft_status disk_take(ft_run *run, int device, int64_t bytes, disk_home **out, ft_error *err);
/* Where it is between legs. */
char *disk_address(const disk_home *home);
/* Around a leg: notes what is there; gives what is there at its end, until the next one is asked
 * for, or FT_IO where that is something else. */
void disk_begin(disk_home *home);
ft_status disk_end(const disk_home *home, const char **bytes, ft_error *err);
/* All of it, on the stream; what goes wrong ends the run. */
ft_status disk_load(disk_home *home, ft_device_stream *stream, ft_location to, ft_error *err);
ft_status disk_save(disk_home *home, ft_device_stream *stream, ft_location from, ft_error *err);

#endif
