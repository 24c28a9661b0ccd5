/* test/no_memory.h - what happens when any one allocation fails. */
#ifndef FT_TEST_NO_MEMORY_H
#define FT_TEST_NO_MEMORY_H

#include "base/alloc.h"
#include "base/error.h"
#include "check.h"

/* Something that allocates, and has given all of it back when it returns. */
typedef ft_status memory_attempt(void *with, ft_error *err);

/* Fails allocation 1, 2, 3 ... of the attempt until none is left to fail: each time it says so and
 * leaves nothing behind, and in the end it succeeds. It makes more than `least` allocations. */
static inline void check_without_memory(memory_attempt *attempt, void *with, int least)
{
    int64_t live = ft_alloc_live();
    ft_status status = FT_NOMEM;
    int n = 0;
    while (status == FT_NOMEM && n < 1000) {
        ft_error err = {0};
        ft_alloc_fail_after(++n);
        status = attempt(with, &err);
        ft_alloc_fail_after(0);
        CHECK(ft_alloc_live() == live);
        if (!CHECK(status == FT_OK || status == FT_NOMEM)) fprintf(stderr, "%s\n", err.message);
    }
    CHECK_STATUS(status, FT_OK);
    CHECK(n > least);
}

#endif
