/* partition/models.c - the cost models: one row each. */
#include <math.h>
#include <string.h>

#include "contiguous/contiguous.h"
#include "partition/internal.h"
#include "partition/partition.h"

/* Eliad et al., "FTPipe", USENIX ATC 2021, section 4: traffic costs nothing while it hides. */
static double overlap(double compute, double out, double out_grad, double in, double in_grad)
{
    (void)in, (void)in_grad;
    double values = out > compute ? out - compute : 0;
    double gradients = out_grad > compute ? out_grad - compute : 0;
    return compute + values + gradients;
}

/* Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS
 * 2020: nothing overlaps. */
static double sum(double compute, double out, double out_grad, double in, double in_grad)
{
    return compute + out + out_grad + in + in_grad;
}

/* Narayanan et al., "PipeDream", SOSP 2019, section 3.1, as its optimizer computes it: what a
 * device computes is the least of it; ft_price_pipedream does the rest. */
static double compute_alone(double compute, double out, double out_grad, double in, double in_grad)
{
    (void)out, (void)out_grad, (void)in, (void)in_grad;
    return compute;
}

static const ft_cost_model models[] = {
    {"overlap", "compute, and what of sending values and gradients it does not hide", overlap, true,
     NULL},
    {"sum", "compute and every transfer in and out, one after the other", sum, false, NULL},
    {"pipedream", "contiguous stages with replicas, as PipeDream's optimizer counts them",
     compute_alone, false, ft_price_pipedream},
};

enum { N_MODELS = sizeof models / sizeof *models };

const ft_cost_model *cost_find(const char *name)
{
    for (int i = 0; i < N_MODELS; i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

const char *ft_partition_cost_name(int i)
{
    return i >= 0 && i < N_MODELS ? models[i].name : NULL;
}

const char *ft_partition_cost_doc(int i)
{
    return i >= 0 && i < N_MODELS ? models[i].doc : NULL;
}
