/* test/check.h - the checks of a C test program.
 *
 * main() calls test functions through RUN and ends with `return check_report();`, which prints
 * "N passed, N failed" and gives the exit code. One CHECK is one count. */
#ifndef FT_TEST_CHECK_H
#define FT_TEST_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* Sanitizers make code several times slower: of n cases that differ by a seed or a number only,
 * they get a tenth. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CASES_STEP = 10 };
#else
enum { CASES_STEP = 1 };
#endif
#define CASES(n) (((n) + CASES_STEP - 1) / CASES_STEP)

static int check_passed, check_failed;

static inline bool check_note(bool ok, const char *file, int line, const char *what)
{
    if (ok)
        check_passed++;
    else {
        check_failed++;
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    }
    return ok;
}

#define CHECK(condition) check_note((condition), __FILE__, __LINE__, #condition)
#define CHECK_NEAR(a, b, tolerance)                                                                \
    check_note(fabs((double)(a) - (double)(b)) <= (tolerance), __FILE__, __LINE__, #a " near " #b)
#define CHECK_STATUS(expr, wanted)                                                                 \
    check_note((expr) == (wanted), __FILE__, __LINE__, #expr " gives " #wanted)
#define RUN(test) test()

static inline int check_report(void)
{
    printf("%d passed, %d failed\n", check_passed, check_failed);
    return check_failed || !check_passed;
}

#endif
