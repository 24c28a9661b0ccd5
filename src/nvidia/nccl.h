/* nvidia/nccl.h - the functions of NCCL that are used, as a table.
 *
 * The library is not linked: load.c finds it when the program runs, and the emulation of test/ has
 * a table of its own. Declarations are those of nccl.h (2.18 and newer, which know how to read
 * settings of 2.17); numbers that are returned are 0 when all is well. */
#ifndef FT_NVIDIA_NCCL_H
#define FT_NVIDIA_NCCL_H

#include <limits.h>

#include "nvidia/nvidia.h"

typedef struct nccl_comm_s *nccl_comm;

enum {
    NCCL_ID_BYTES = 128,
    NCCL_OLDEST = 21800, /* as `version` says it */
    NCCL_BYTES = 0,      /* type of send and receive: counted in bytes */
    NCCL_IN_PROGRESS = 7 /* goes on by itself: `state` says how it ended */
};

typedef struct nccl_id {
    char bytes[NCCL_ID_BYTES];
} nccl_id;

/* ncclConfig_t of 2.17; what is left at NCCL_ANY is the library's choice. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;                                  /* 0: calls may answer NCCL_IN_PROGRESS */
    int cluster_blocks, least_blocks, most_blocks; /* of a kernel */
    const char *network;
} nccl_config;

#define NCCL_ANY INT_MIN
#define NCCL_CONFIG                                                                                \
    {                                                                                              \
        .size = sizeof(nccl_config), .magic = 0xcafebeef, .version = 21700, .blocking = 0,         \
        .cluster_blocks = NCCL_ANY, .least_blocks = NCCL_ANY, .most_blocks = NCCL_ANY              \
    }

/* Field, its name in the library, parameters. */
#define FT_NCCL_API(X)                                                                             \
    X(version, ncclGetVersion, (int *version))                                                     \
    X(id_new, ncclGetUniqueId, (nccl_id * out))                                                    \
    X(open, ncclCommInitRankConfig,                                                                \
      (nccl_comm * out, int n, nccl_id id, int rank, nccl_config *config))                         \
    X(state, ncclCommGetAsyncError, (nccl_comm comm, int *state))                                  \
    X(send, ncclSend,                                                                              \
      (const void *from, size_t n, int type, int peer, nccl_comm comm, cu_stream stream))          \
    X(receive, ncclRecv,                                                                           \
      (void *to, size_t n, int type, int peer, nccl_comm comm, cu_stream stream))                  \
    X(abort, ncclCommAbort, (nccl_comm comm))                                                      \
    X(close, ncclCommDestroy, (nccl_comm comm))

typedef struct ft_nccl_api {
#define FT_NCCL_FIELD(field, name, parameters) int(*field) parameters;
    FT_NCCL_API(FT_NCCL_FIELD)
#undef FT_NCCL_FIELD
} ft_nccl_api;

/* FT_UNSUPPORTED when it is older than what is used of it. */
ft_status ft_nccl_check(const ft_nccl_api *api, ft_error *err);
/* NCCL of this machine; NULL says why there is none. */
const ft_nccl_api *ft_nccl_api_load(ft_error *err);

#endif
