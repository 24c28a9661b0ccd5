/* blueprint/costs.h - what work takes on a device: as it was measured, or modelled. */
#ifndef FT_BLUEPRINT_COSTS_H
#define FT_BLUEPRINT_COSTS_H

/* What work takes on one device, ns, as a profile has it. */
typedef struct ft_work_costs {
    const double *node_ns;      /* by node */
    const double *recompute_ns; /* by forward node, run again before backward; NULL: as node_ns */
    const double *joint_ns;     /* by forward node, of a joint forward as a whole; NULL: modelled */
    const double *pack_ns;      /* by forward node: packed copies of its weight, per update */
    const double *update_ns;    /* by parameter: its optimizer step */
    const double *norm_ns;      /* by parameter: the squared norm of its gradient */
    double copy_bytes_per_s;    /* into and out of the buffers of edges */
    double handoff_ns;          /* from the end of an action to the start of one waiting for it */
} ft_work_costs;

#endif
