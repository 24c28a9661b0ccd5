/* test/fuzz/fuzz_plan.c - any text is read as a plan or refused, any plan is checked, and what is
 * proven can be simulated. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "planfile/planfile.h"
#include "proof/proof.h"
#include "simulate/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A plan of up to 2^27 actions is checked in seconds; the fuzzer has more to do. */
static bool is_short(const ft_plan *plan)
{
    int64_t length = 0;
    for (int d = 0; d < plan->n_devices; d++) length += ft_plan_length(plan, d);
    return length < 1 << 20;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ft_error err;
    ft_plan *plan = NULL;
    char *text = ft_alloc((int64_t)size + 1);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    if (ft_plan_parse(&plan, text, &err) == FT_OK) {
        ft_text again = {0};
        ft_timeline *timeline = NULL;
        if (is_short(plan) && ft_plan_check(plan, &err) == FT_OK &&
            ft_plan_simulate(&timeline, plan, NULL, &err) != FT_OK && err.status == FT_INFEASIBLE)
            abort(); /* proven, and yet it waits for ever */
        ft_timeline_free(timeline);
        (void)ft_plan_write(plan, &again, &err);
        ft_text_fini(&again);
        ft_plan_free(plan);
    }
    ft_free(text);
    return 0;
}
