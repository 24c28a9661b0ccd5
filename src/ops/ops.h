/* ops/ops.h - the operator table.
 *
 * One row per operator: names, attributes, shape rule, cost, gradient, kernels, samples. Everything
 * that is done with operators (graphs, engine, profiler, Lua constructors, tests, docs) loops over
 * the rows; a new operator is a new file with one row and one line in table.c.
 *
 * Rules for rows:
 *  1. A kernel reads call->in, writes call->out and nothing else (but call->rows, where there are).
 *     It never allocates, never keeps state and is deterministic: the same inputs give the same
 *     bits for any team size.
 *  2. `kernel` is the fast one of the CPU (f32 data, i32 ids); kernels.c has those of other kinds
 *     of devices. `reference` is the naive one: plain loops over
 *     contiguous f64 data (ids stay i32); it is the judge of the kernel and of the gradient.
 *  3. The gradient of a row is built from other rows, through ft_builder; it runs nothing.
 *  4. All inputs and outputs are contiguous.
 *  5. Random numbers come from call->key and the index of the element inside its sample (axis 0 of
 *     the first input counts samples), see op_dropout.c. */
#ifndef FT_OPS_H
#define FT_OPS_H

#include "base/error.h"
#include "base/rng.h"
#include "device/driver.h"
#include "tensor/tensor.h"

enum { FT_MAX_IN = 8, FT_MAX_OUT = 4, FT_MAX_ATTRS = 8 };

/* A value of a graph, by number; FT_NO_VALUE where there is none (an optional input that is absent,
 * a gradient that nobody asked for). */
typedef int32_t ft_value_id;
enum { FT_NO_VALUE = -1 };

/* One execution of a row. An absent optional input has data NULL. */
typedef struct ft_call {
    const ft_view *in;
    const ft_view *out;
    const double *attrs; /* in the order of the row's attribute rules */
    const void *packed;  /* packed copy of the row's packed input, NULL: use the plain one */
    void *work;          /* op->workspace bytes, 64-byte aligned */
    ft_rng_key key;
    uint32_t accumulate; /* bit i: add to out[i] instead of overwriting; only for outputs that the
                            row lists in `accumulates` */
    /* By row of output 0 of an op->by_rows: 0 where the row holds zeros. The kernel reads and
     * writes it instead of clearing the rows that hold zeros already; NULL: it clears all. */
    uint8_t *rows;
    ft_team *team;
    ft_device_stream *stream; /* that the kernel works on; NULL: its caller, on the CPU */
} ft_call;

typedef struct ft_op ft_op; /* one row, below */

typedef ft_status (*ft_kernel)(const ft_call *call, ft_error *err);

/* What one execution costs, for cost models. */
typedef struct ft_cost {
    double flops;
    double bytes_read;
    double bytes_written;
    bool bf16, tf32, f16; /* the flops are products in these */
} ft_cost;

/* Attributes are numbers; flags are 0 or 1, choices are small integers named in the help. */
typedef struct ft_attr_rule {
    const char *name; /* NULL ends the list */
    double preset;    /* used when the caller gives none */
    double min, max;
    bool integer;
    const char *help;
} ft_attr_rule;

/* What a gradient rule may do: add nodes. Returns the first output; further ones follow it by
 * number (output k is first + k). In case of failure FT_NO_VALUE, and the builder keeps the error,
 * so rules need not check between calls. */
typedef struct ft_builder {
    ft_value_id (*add)(struct ft_builder *b, const ft_op *op, const ft_value_id *in, int n_in,
                       const double *attrs);
    const ft_spec *(*spec)(struct ft_builder *b, ft_value_id value);
} ft_builder;

/* The node whose gradient is wanted. */
typedef struct ft_grad_site {
    const ft_value_id *in;   /* FT_MAX_IN entries, FT_NO_VALUE past n_in */
    const ft_value_id *out;  /* its outputs */
    const ft_value_id *dout; /* gradients of the outputs, FT_NO_VALUE where nothing flows back */
    const bool *wanted;      /* which inputs need a gradient */
    const double *attrs;
    ft_value_id *din; /* to fill, for wanted inputs; presets are FT_NO_VALUE */
} ft_grad_site;

/* One input set that every walk of the table tries. */
typedef struct ft_sample {
    ft_spec in[FT_MAX_IN];      /* n_dims < 0: absent optional input */
    double attrs[FT_MAX_ATTRS]; /* all of them, in order */
    double tolerance;           /* kernel against reference, relative to the largest magnitude */
    int64_t id_limit;           /* i32 inputs are drawn from [0, id_limit); 0 when there are none */
} ft_sample;

struct ft_op {
    const char *name;
    const char *doc;  /* one line: y = ..., with shapes */
    int min_in, n_in; /* inputs past min_in are optional */
    int n_out;
    const ft_attr_rule *attrs; /* NULL: none */
    /* Specs of inputs to specs of outputs; FT_SHAPE in words. Absent inputs have n_dims < 0. */
    ft_status (*shape)(const ft_spec *in, const double *attrs, ft_spec *out, ft_error *err);
    ft_cost (*cost)(const ft_spec *in, const ft_spec *out, const double *attrs);
    /* NULL: the row has no gradient (it is one, or it makes integers); asking for one is an error
     * that names the row. */
    void (*grad)(ft_builder *b, const ft_grad_site *site);
    ft_kernel kernel;
    ft_kernel reference;
    int64_t (*workspace)(const ft_spec *in, const double *attrs, int team_size); /* NULL: 0 */
    /* Outputs that can be added to (parameter gradients). A row with further outputs adds what it
     * gives when it does not add: the same bits as one that is added later. */
    uint32_t accumulates;
    bool by_rows; /* output 0, (rows, D), is zero but in rows that the other inputs pick: at most
                     one for each row of input 0, (..., D) */
    /* Whether what a call gave is finite, for a row that knows which elements it wrote; NULL: all
     * are looked at. */
    bool (*finite)(const ft_call *call);
    /* Inputs and outputs that kernels of cards may be given in 16 bits instead of f32: bit i. */
    uint32_t half_in, half_out;
    /* The same of rows that are apart (ft_spec's pitch). */
    uint32_t apart_in, apart_out;
    uint32_t no_grad_out; /* outputs that carry no gradient (saved statistics) */
    bool random;          /* draws random numbers: call->key matters */
    /* Packing: input pack_input - 1 is a weight that may be given in a layout of the kernel's own,
     * made once per optimizer step. 0: the row does not pack. */
    int pack_input;
    int64_t (*pack_bytes)(const ft_spec *in, const double *attrs);
    ft_status (*pack)(const ft_spec *in, const double *attrs, const void *weight, void *packed,
                      ft_team *team, ft_error *err);
    /* Nodes whose rows give one name share a packed copy when pack_bytes agree. */
    const char *(*pack_kind)(const double *attrs);
    const ft_sample *samples;
    int n_samples;
};

/* All rows, NULL at the end, in the order of table.c. */
extern const ft_op *const ft_ops[];

/* The row of that name, or NULL. */
const ft_op *ft_op_find(const char *name);
int ft_op_attr_count(const ft_op *op);

/* Fills attrs (FT_MAX_ATTRS) from n names and values, presets for the rest; FT_INVALID for unknown
 * names and values out of range, naming row and attribute. */
ft_status ft_op_attrs(const ft_op *op, const char *const *names, const double *values, int n,
                      double *attrs, ft_error *err);

/* The row's shape rule with its checks of number and presence of inputs around it. */
ft_status ft_op_shape(const ft_op *op, const ft_spec *in, int n_in, const double *attrs,
                      ft_spec *out, ft_error *err);

/* What a weight is packed by: the team, or the stream of a device that has memory of its own. */
typedef struct ft_packer {
    ft_team *team;
    ft_device_stream *stream; /* NULL: the team's caller does it */
} ft_packer;

/* The kernels of a kind of device, for arithmetic in a dtype. */
typedef struct ft_kernel_list {
    ft_device_kind kind;
    ft_dtype dtype;
    ft_kernel (*find)(const ft_op *op); /* the row's, or NULL */
    /* Bytes of call->work that it wants; absent inputs have n_dims < 0. */
    int64_t (*workspace)(const ft_op *op, const ft_spec *in, const double *attrs, int team_size);
    /* Of packed weights, as the fields of rows of these names say for the CPU. */
    int64_t (*pack_bytes)(const ft_op *op, const ft_spec *in, const double *attrs);
    const char *(*pack_kind)(const ft_op *op, const double *attrs);
    ft_status (*pack)(const ft_op *op, const ft_spec *in, const double *attrs, const void *weight,
                      void *packed, const ft_packer *by, ft_error *err);
    /* NULL: packed weights have layouts of their own. Else they are the weight's numbers in their
     * order, rounded to this dtype, and updates on such a device write them (optim/optim.h). */
    ft_dtype (*pack_dtype)(const ft_op *op, const double *attrs);
} ft_kernel_list;

extern const ft_kernel_list ft_cpu_kernels; /* those in the rows */
/* The lists of this program; NULL at the end. */
extern const ft_kernel_list *const ft_kernel_lists[];

/* The row's kernel for a kind of device and the dtype of its arithmetic; NULL: there is none. And
 * its workspace, 0 where there is none. */
ft_kernel ft_op_kernel(const ft_op *op, ft_device_kind kind, ft_dtype dtype);
int64_t ft_op_workspace(const ft_op *op, ft_device_kind kind, ft_dtype dtype, const ft_spec *in,
                        const double *attrs, int team_size);

/* The list of a kind of device, for arithmetic in a dtype; NULL: there is none. */
const ft_kernel_list *ft_kernel_list_of(ft_device_kind kind, ft_dtype dtype);

/* A call as work of a stream: the argument of ft_row_task. */
typedef struct ft_row_run {
    const ft_op *op;
    ft_kernel kernel;
    const ft_call *call;
    int64_t work_bytes; /* of call->work */
} ft_row_run;

extern const ft_task ft_row_task;

/* Dropout's random numbers: whether element `index` of sample `sample` is kept. threshold is
 * p * 65536 rounded; the scale of what is kept is 65536 / (65536 - threshold). */
bool ft_dropout_keeps(const ft_rng_key *key, uint32_t sample, uint64_t index, uint32_t threshold);

/* Whether no number is infinite or NaN. */
bool ft_all_finite(const float *x, int64_t n, ft_team *team);

#endif
