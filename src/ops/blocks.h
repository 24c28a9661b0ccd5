/* ops/blocks.h - weights packed in blocks, as oneDNN's AVX-512 kernels read them.
 *
 * Its own reorder takes one thread, and a third to a half of what memory can do
 * (bench/results/2026-11-28-packing.txt). */
#ifndef FT_OPS_BLOCKS_H
#define FT_OPS_BLOCKS_H

#include "ops/product.h"

/* The blocks, of FT_BLOCK_COLUMNS columns each, lie one after the other. A block has a row for each
 * k, in bf16 for each pair of k, whose two numbers lie side by side; there are 16 rows or a
 * multiple of them. What is past n and k is 0. oneDNN calls it BA16a64b, in bf16 BA16a64b2a. */
void ft_blocks_pack(const ft_product *product, const float *weight, void *packed, ft_team *team);

#endif
