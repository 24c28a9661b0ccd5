/* transport/module/mpi.c - the functions of transport/mpi.h, by the MPI that this is compiled with.
 *
 * A library of its own; handles of MPI are pointers or numbers, and travel as pointers. */
#include "transport/mpi.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a request fits into a pointer");
_Static_assert(sizeof(MPI_Message) <= sizeof(void *), "a message fits into a pointer");

static int open_mpi(int *rank, int *size)
{
    int level = 0, there = 0;
    MPI_Initialized(&there);
    int rc = there ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (rc == MPI_SUCCESS && !there && level < MPI_THREAD_SERIALIZED) rc = MPI_ERR_OTHER;
    if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_size(MPI_COMM_WORLD, size);
    return -rc;
}

static int send_message(const void *data, int bytes, int peer, int tag, void **request)
{
    MPI_Request handle;
    int rc = MPI_Isend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &handle);
    memcpy(request, &handle, sizeof handle);
    return -rc;
}

static int probe_message(int *peer, int *tag, int *bytes, void **message)
{
    MPI_Message handle;
    MPI_Status status;
    int there = 0;
    int rc = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &handle, &status);
    if (rc != MPI_SUCCESS) return -rc;
    if (!there) return 0;
    memcpy(message, &handle, sizeof handle);
    *peer = status.MPI_SOURCE;
    *tag = status.MPI_TAG;
    rc = MPI_Get_count(&status, MPI_BYTE, bytes);
    return rc == MPI_SUCCESS ? 1 : -rc;
}

static int receive_message(void *message, void *data, int bytes, void **request)
{
    MPI_Message handle;
    MPI_Request going;
    memcpy(&handle, &message, sizeof handle);
    int rc = MPI_Imrecv(data, bytes, MPI_BYTE, &handle, &going);
    memcpy(request, &going, sizeof going);
    return -rc;
}

static int test_request(void **request)
{
    MPI_Request handle;
    int done = 0;
    memcpy(&handle, request, sizeof handle);
    int rc = MPI_Test(&handle, &done, MPI_STATUS_IGNORE);
    memcpy(request, &handle, sizeof handle);
    return rc == MPI_SUCCESS ? done : -rc;
}

static int close_mpi(void)
{
    return -MPI_Finalize();
}

static void say_error(int code, char *out, int size)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, words, &length);
    snprintf(out, (size_t)size, "%s", words);
}

/* "Open MPI v4.1.4, package: ..." as far as the first comma or line. */
static void say_library(char *out, int size)
{
    char words[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(words, &length);
    words[strcspn(words, ",\n")] = 0;
    snprintf(out, (size_t)size, "%s", words);
}

const ft_mpi *ftpipe_mpi(void)
{
    static const ft_mpi table = {
        .version = FT_MPI_VERSION,
        .open = open_mpi,
        .send = send_message,
        .probe = probe_message,
        .receive = receive_message,
        .test = test_request,
        .close = close_mpi,
        .words = say_error,
        .library = say_library,
    };
    return &table;
}
