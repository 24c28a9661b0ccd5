/* test/test_ops_blocks.c - weights packed in blocks: where blocks.h says that a number lies, for
 * every instruction set that this CPU has and every team. That oneDNN reads them so is c/ops's to
 * show. */
#include <string.h>

#include "check.h"
#include "op_case.h"
#include "ops/blocks.h"
#include "ops/simd/simd.h"
#include "source.h"

enum { COLUMNS = FT_BLOCK_COLUMNS };

/* Number (k,n) of a weight, 0 past its ends. */
static float number(const ft_product *p, const float *weight, int64_t k, int64_t n)
{
    if (k >= p->k || n >= p->n) return 0.0f;
    return weight[p->transposed ? n * p->k + k : k * p->n + n];
}

/* Whether a packed weight has that number where it belongs. */
static bool has(const ft_product *p, const void *packed, int64_t padded, int64_t k, int64_t n,
                float x)
{
    int64_t block = n / COLUMNS * COLUMNS * padded, column = n % COLUMNS;
    if (!p->bf16) return ((const float *)packed)[block + k * COLUMNS + column] == x;
    uint16_t rounded;
    ft_simd_of(FT_ISA_BASE)->math->to_bf16(&rounded, &x, 1);
    return ((const uint16_t *)packed)[block + (k / 2 * COLUMNS + column) * 2 + k % 2] == rounded;
}

static int64_t wrong(const ft_product *p, const float *weight, const void *packed, int64_t padded)
{
    int64_t count = 0, columns = (p->n + COLUMNS - 1) / COLUMNS * COLUMNS;
    for (int64_t k = 0; k < padded; k++)
        for (int64_t n = 0; n < columns; n++)
            count += !has(p, packed, padded, k, n, number(p, weight, k, n));
    return count;
}

static int64_t padded_k(const ft_product *p)
{
    int64_t unit = p->bf16 ? 32 : 16;
    return (p->k + unit - 1) / unit * unit;
}

static int64_t packed_bytes(const ft_product *p)
{
    return (p->n + COLUMNS - 1) / COLUMNS * COLUMNS * padded_k(p) * (p->bf16 ? 2 : 4);
}

static const int64_t sizes[][2] = {{1, 1},   {2, 63},   {15, 64},   {16, 65},  {17, 128},
                                   {31, 16}, {32, 200}, {33, 1000}, {100, 50}, {257, 130}};

/* Every size and way that a weight is given, as `each` packs it. */
static void each_case(void (*each)(const ft_product *p, const float *weight, int with), int with)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 4; way++) {
            const ft_product p = {
                .k = sizes[i][0], .n = sizes[i][1], .transposed = way & 1, .bf16 = way & 2};
            source weight = source_new(p.n * p.k, (uint32_t)i + 1);
            each(&p, weight.x, with);
            source_free(weight);
        }
}

static void by_team(const ft_product *p, const float *weight, int team_size)
{
    int64_t bytes = packed_bytes(p);
    void *packed = guarded_new(bytes);
    ft_team *team;
    CHECK_STATUS(ft_team_new(&team, team_size, NULL), FT_OK);
    ft_blocks_pack(p, weight, packed, team);
    CHECK(wrong(p, weight, packed, padded_k(p)) == 0);
    CHECK(guarded_intact(packed, bytes));
    ft_team_free(team);
    guarded_free(packed);
}

static void test_teams(void)
{
    for (int team = 1; team <= 3; team++) each_case(by_team, team);
}

/* The first block, by the kernels of one instruction set. */
static void by_isa(const ft_product *p, const float *weight, int isa)
{
    const ft_simd_blocks *blocks = ft_simd_of(isa)->blocks;
    ft_product first = *p;
    if (first.n > COLUMNS) first.n = COLUMNS;
    const ft_panel_source x = {.data = weight,
                               .ld = p->transposed ? p->k : p->n,
                               .k = p->k,
                               .count = first.n,
                               .turned = p->transposed};
    int64_t bytes = packed_bytes(&first), count = 0;
    void *packed = guarded_new(bytes);
    (p->bf16 ? blocks->bf16 : blocks->f32)(packed, &x, padded_k(p));
    for (int64_t k = 0; k < padded_k(p); k++)
        for (int64_t n = 0; n < COLUMNS; n++)
            count +=
                !has(p, packed, padded_k(p), k, n, n < first.n ? number(p, weight, k, n) : 0.0f);
    CHECK(count == 0);
    CHECK(guarded_intact(packed, bytes));
    guarded_free(packed);
}

static void test_instruction_sets(void)
{
    for (int isa = 0; isa <= (int)ft_cpu_isa(); isa++)
        if (ft_simd_of(isa)) each_case(by_isa, isa);
}

int main(void)
{
    RUN(test_teams);
    RUN(test_instruction_sets);
    return check_report();
}
