/* test/test_ops_sizes.c - what is kept of oneDNN's answers. */
#include "check.h"

#include "ops/onednn.h"
#include "ops/ops.h"

/* Sizes are kept: whoever asks in between, and whatever else was asked, they are those of a product
 * that is asked for the first time. */
static void test_sizes_are_told_apart(void)
{
    const ft_product plain = {.m = 96, .n = 80, .k = 112};
    ft_product p[] = {plain, plain, plain, plain, plain, plain};
    bool halves = p[1].bf16 = ft_ops_have_bf16();
    p[2].k = 4096;
    p[3].n = 333;
    p[4].x_transposed = true;
    p[5].m = 4000;
    enum { N = sizeof p / sizeof *p, MANY = 6000 };
    int64_t first[N][3];
    for (int i = 0; i < N; i++) {
        first[i][0] = ft_onednn_packed_bytes(&p[i]);
        first[i][1] = ft_onednn_work_bytes(&p[i], 1);
        first[i][2] = ft_onednn_work_bytes(&p[i], 3);
        CHECK(first[i][0] >= p[i].n * p[i].k * (p[i].bf16 ? 2 : 4));
        CHECK(first[i][2] % 3 == 0);
    }
    CHECK(halves ? first[1][0] < first[0][0] : first[1][0] == first[0][0]);
    CHECK(first[2][0] > first[0][0] && first[3][0] > first[0][0]);
    CHECK(first[5][0] == first[0][0] && first[4][0] == first[0][0]);
    for (int i = 1; i <= MANY; i++) { /* more than are kept */
        const ft_product other = {.m = 1, .n = 1 + i % 80, .k = 1 + i / 80};
        CHECK(ft_onednn_packed_bytes(&other) >= other.n * other.k * 4);
    }
    for (int i = N - 1; i >= 0; i--) {
        CHECK(ft_onednn_work_bytes(&p[i], 3) == first[i][2]);
        CHECK(ft_onednn_work_bytes(&p[i], 1) == first[i][1]);
        CHECK(ft_onednn_packed_bytes(&p[i]) == first[i][0]);
    }
}

int main(void)
{
    RUN(test_sizes_are_told_apart);
    return check_report();
}
