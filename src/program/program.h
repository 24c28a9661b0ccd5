/* program/program.h - a list of nodes made ready to run.
 *
 * A program is compiled once: every operand gets a place, values that live inside the program are
 * laid out in one work area, views are prepared. Running it allocates nothing and decides nothing:
 * it adds offsets to the bases that the caller passes and calls kernels in order.
 *
 * Lifetime: a program borrows the graph, which must outlive it. It is read-only after
 * ft_program_new, so threads may run one program at once, each with its own bases. */
#ifndef FT_PROGRAM_H
#define FT_PROGRAM_H

#include "graph/graph.h"
#include "optim/optim.h"

/* What memory a value lives in while a program runs. */
typedef enum {
    FT_HOME_WORK,  /* laid out by the program; gone when it ends (kept values: when the next begins)
                    */
    FT_HOME_SAVED, /* at an offset that the caller chose, in the micro-batch's slot */
    FT_HOME_HELD,  /* likewise, in the slot of what is kept between the halves of a backward */
    FT_HOME_INPUT, /* by input number */
    FT_HOME_PARAM, /* by parameter number */
    FT_HOME_GRAD,  /* by gradient term number; chosen by the program, never by its caller */
    FT_HOME_BOUND, /* by number among the values that the caller binds at each run */
    FT_HOME_COUNT
} ft_home;

typedef struct ft_place {
    ft_home home;
    int64_t at; /* byte offset in WORK, SAVED and HELD, a number in the others */
} ft_place;

/* A packed copy of a parameter that a program's rows can read instead of the plain one. */
typedef struct ft_pack {
    const ft_op *op; /* whose pack functions make it */
    int param;
    int64_t bytes;
    int node; /* a node that uses it: its specs and attributes are what pack gets */
    const ft_kernel_list *kernels; /* whose copy it is */
} ft_pack;

typedef struct ft_program_request {
    const ft_graph *graph;
    const int *nodes; /* node numbers, in the order to run */
    int n_nodes;
    const ft_place *places;    /* by value: where the caller keeps it; home WORK: not decided yet */
    const ft_value_id *arrive; /* values in WORK that are there before the first node */
    int n_arrive;
    const ft_value_id *keep; /* values in WORK that must be readable after the last node */
    int n_keep;
    const int *terms; /* gradient terms (numbers) that the nodes make; or that are there, HELD */
    int n_terms;
    const ft_pack *packs; /* packed copies that exist; may be none */
    int n_packs;
    int team_size;
    ft_device_kind kind; /* that it runs on; FT_DEVICE_SIM: never, and nothing is made ready */
} ft_program_request;

typedef struct ft_program ft_program;

/* Compiles; FT_NOMEM, FT_UNSUPPORTED when a row has no kernel for the kind of device, or what a row
 * says that cannot make ready its call. */
ft_status ft_program_new(ft_program **out, const ft_program_request *request, ft_error *err);
/* The size of the work area of what ft_program_new would make, and its FT_UNSUPPORTED for a row
 * without a kernel; nothing is made. */
ft_status ft_program_measure(int64_t *work_bytes, const ft_program_request *request, ft_error *err);
/* NULL is accepted. */
void ft_program_free(ft_program *program);
/* The size of its work area. */
int64_t ft_program_work_bytes(const ft_program *program);
/* Where a value of the program lives; values it does not know give home COUNT. */
ft_place ft_program_place(const ft_program *program, ft_value_id value);

/* Records what a run really touched: the highest end of a live tensor in each area. */
typedef struct ft_high_water {
    int64_t work, saved;
} ft_high_water;

/* Looks for numbers that are not finite. Without `every`, at gradient terms alone, and the run goes
 * on: `node` is the first that made one. With it, at what every node gives (but saved statistics,
 * which may be infinite), and the run ends there. */
typedef struct ft_watch {
    bool every;
    bool growing;        /* the terms are added to later: on CPUs, which look at them when they are
                            whole, at what is read to make them, where that is fewer numbers */
    const ft_node *node; /* NULL: none was found */
    bool nan;            /* what it gave: nan, or only infinite numbers */
} ft_watch;

/* Memory for one run. */
typedef struct ft_bases {
    char *work, *saved, *held;
    void *const *inputs;  /* by input number */
    void *const *params;  /* by parameter number */
    void *const *grads;   /* by gradient term number */
    void *const *bound;   /* by bound number */
    uint8_t *const *rows; /* by gradient term: ft_call.rows of who makes it, or NULL; may be NULL */
    double *const *squares; /* by gradient term: gets its sum of squares, or NULL; may be NULL */
    const void *const
        *packed;     /* by number in the request's packs; NULL entries: use the plain one */
    bool accumulate; /* gradient terms are added to; else overwritten */
    ft_rng_key key;  /* node is filled in per node */
    ft_team *team;
    ft_device_stream *stream;  /* NULL: the caller computes, on the CPU */
    ft_high_water *high_water; /* may be NULL */
    ft_watch *watch;           /* may be NULL; with a stream of a device that has steps of its own
                                  (ft_steps_of), it and `squares` are set by ft_program_judge */
    ft_look *looks;            /* then: by gradient term, in host memory of the device */
    ft_look *look;             /* and one for any tensor */
    int64_t *step_ns; /* by position in the request's nodes: gets what each took; may be NULL */
    int64_t (*clock)(void); /* of step_ns */
} ft_bases;

/* Looks at one tensor of a node, unless something was found already. */
void ft_watch_value(ft_watch *watch, const ft_node *node, const float *x, int64_t n, ft_team *team);

/* As ft_watch_value, on any device; waits for the stream where it runs ahead. x is f32, on cards
 * perhaps of 16 bits. */
ft_status ft_watch_tensor(const ft_bases *bases, const ft_node *node, const ft_spec *spec,
                          const void *x, ft_error *err);

/* "'linear' in decoder/block.0 (forward) gave inf": what was found, cut to size. */
void ft_watch_words(const ft_watch *watch, char *text, size_t size);

/* Address of a place. */
void *ft_place_address(const ft_bases *bases, ft_place place);

/* Runs every node. The error of a failing kernel is wrapped with row and scope. */
ft_status ft_program_run(const ft_program *program, const ft_bases *bases, ft_error *err);

/* After the stream of a run with looks has finished: sets bases->watch and bases->squares by what
 * was found in the gradient terms. */
void ft_program_judge(const ft_program *program, const ft_bases *bases);

/* The distinct packed copies that the nodes could use by such kernels, into packs (room for
 * n_nodes); returns their number. */
int ft_program_packs(const ft_graph *graph, const int *nodes, int n_nodes,
                     const ft_kernel_list *kernels, ft_pack *packs);

/* The same of copies in 16 bits that products of a planned graph read (ft_graph_store); none of any
 * other graph. */
int ft_program_copies(const ft_graph *graph, const int *nodes, int n_nodes, ft_pack *packs);

/* Whether two packed copies of one weight, of nodes of two graphs, are the same bytes. */
bool ft_pack_equal(const ft_graph *a_graph, const ft_pack *a, const ft_graph *b_graph,
                   const ft_pack *b);

/* Whether updates write it, where they are given to a stream: in *dtype. */
bool ft_pack_is_written(const ft_graph *graph, const ft_pack *pack, ft_dtype *dtype);
/* What of a copy's own time an update takes longer that makes it: where it writes the copy itself,
 * of 4 bytes read and 2 written for each number the writing. */
double ft_pack_share(ft_device_kind kind);

/* Makes a packed copy from the plain weight: by the team, or by the stream of a device that has
 * memory of its own. */
ft_status ft_pack_make(const ft_graph *graph, const ft_pack *pack, const void *weight, void *packed,
                       const ft_packer *by, ft_error *err);

#endif
