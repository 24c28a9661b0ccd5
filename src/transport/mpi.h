/* transport/mpi.h - what the program asks of MPI, as a table of functions.
 *
 * The table is in a module of its own (src/transport/module), which is compiled with the MPI that
 * is installed and opened at run time: the program itself does not need one. Calls come one at a
 * time, from any thread. Functions give 0 or more, or the negative of an MPI error code. */
#ifndef FT_TRANSPORT_MPI_H
#define FT_TRANSPORT_MPI_H

typedef struct ft_mpi {
    int version; /* FT_MPI_VERSION of its header */
    int (*open)(int *rank, int *size);
    /* The bytes stay the caller's until test says that the request is done. */
    int (*send)(const void *data, int bytes, int peer, int tag, void **request);
    /* 1: a message is there, which only `receive` gets; 0: none is. */
    int (*probe)(int *peer, int *tag, int *bytes, void **message);
    int (*receive)(void *message, void *data, int bytes, void **request);
    /* 1: the request is done and gone; 0: it is under way. */
    int (*test)(void **request);
    int (*close)(void);
    void (*words)(int code, char *out, int size); /* of an error code */
    void (*library)(char *out, int size);         /* its name and version */
} ft_mpi;

enum { FT_MPI_VERSION = 2 };

/* The module's only symbol. */
typedef const ft_mpi *ft_mpi_get(void);
ft_mpi_get ftpipe_mpi;

#endif
