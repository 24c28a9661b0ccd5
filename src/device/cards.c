/* device/cards.c - rows of common cards: the makers' data sheets.
 *
 * Peak f32 rate outside the tensor cores, bandwidth of device memory, and one direction of the link
 * between two cards: PCIe as copies measure it, about 80 % of its peak (12 GB/s for 3.0 x16, 24 for
 * 4.0 x16, 48 for 5.0 x16), or all NVLinks of the card together. Then dense products of bf16 and of
 * f16 with f32 sums on the tensor cores; 0 where it has none. These are multiprocessors times boost
 * clock times what one does in a clock: 1024 operations on Volta, Turing, GA102 and Ada, but 512 on
 * GeForce cards, which are half as fast with f32 sums; 2048 on A100, 4096 on H100 (NVIDIA's white
 * papers on V100, Turing, A100, GA102, H100 and Ada, whose tables of cards have the products). */
#include <stddef.h>
#include <string.h>

#include "device/device.h"

const ft_card ft_cards[FT_CARDS] = {
    /* GeForce GTX 1080 Ti: 3584 cores at 1.582 GHz, 352 bit GDDR5X at 11 Gb/s */
    {"1080ti", 11e9, 11.34e12, 484e9, 12e9, 0, 0},
    /* GeForce RTX 2080 Ti: 4352 cores at 1.545 GHz, 352 bit GDDR6 at 14 Gb/s; 68 multiprocessors */
    {"2080ti", 11e9, 13.45e12, 616e9, 12e9, 0, 53.8e12},
    /* GeForce RTX 3090: 10496 cores at 1.695 GHz, 384 bit GDDR6X at 19.5 Gb/s; 82
     * multiprocessors */
    {"3090", 24e9, 35.6e12, 936e9, 24e9, 71e12, 71e12},
    /* GeForce RTX 4090: 16384 cores at 2.52 GHz, 384 bit GDDR6X at 21 Gb/s; 128 multiprocessors */
    {"4090", 24e9, 82.6e12, 1008e9, 24e9, 165.2e12, 165.2e12},
    /* RTX A6000: 10752 cores at 1.8 GHz, 384 bit GDDR6 at 16 Gb/s; 84 multiprocessors */
    {"a6000", 48e9, 38.7e12, 768e9, 24e9, 154.8e12, 154.8e12},
    /* Tesla T4: 2560 cores, 8.1 TFLOP/s, GDDR6; 40 multiprocessors at 1.59 GHz */
    {"t4", 16e9, 8.1e12, 320e9, 12e9, 0, 65e12},
    /* L4: 7424 cores, 30.3 TFLOP/s, GDDR6; 58 multiprocessors at 2.04 GHz */
    {"l4", 24e9, 30.3e12, 300e9, 24e9, 121e12, 121e12},
    /* Tesla P100 SXM2: 10.6 TFLOP/s, HBM2, four NVLink 1.0 of 20 GB/s */
    {"p100", 16e9, 10.6e12, 732e9, 80e9, 0, 0},
    /* Tesla V100 SXM2 32 GB: 15.7 TFLOP/s, HBM2, six NVLink 2.0 of 25 GB/s; 80 multiprocessors at
     * 1.53 GHz */
    {"v100", 32e9, 15.7e12, 900e9, 150e9, 0, 125e12},
    /* Tesla V100 SXM2 16 GB */
    {"v100-16", 16e9, 15.7e12, 900e9, 150e9, 0, 125e12},
    /* A100 SXM4 80 GB: 19.5 TFLOP/s, HBM2e, twelve NVLink 3.0 of 25 GB/s; 108 multiprocessors at
     * 1.41 GHz; twice, by both names */
    {"a100", 80e9, 19.5e12, 2039e9, 300e9, 312e12, 312e12},
    {"a100-80", 80e9, 19.5e12, 2039e9, 300e9, 312e12, 312e12},
    /* A100 SXM4 40 GB: HBM2 */
    {"a100-40", 40e9, 19.5e12, 1555e9, 300e9, 312e12, 312e12},
    /* H100 SXM5 80 GB: 67 TFLOP/s, HBM3, eighteen NVLink 4.0 of 25 GB/s; 132 multiprocessors, whose
     * tensor cores are counted at 1.83 GHz */
    {"h100", 80e9, 67e12, 3350e9, 450e9, 989e12, 989e12},
    /* H200 SXM 141 GB: as H100 with HBM3e */
    {"h200", 141e9, 67e12, 4800e9, 450e9, 989e12, 989e12},
};

/* Products reach 72 to 81 % of a 2080 Ti's peak in the stages that FTPipe measured (Eliad et al.,
 * USENIX ATC 2021: floating point operations of its published stages over their times); memory
 * reaches what stream benchmarks reach. */
const double FT_CARD_PRODUCTS = 0.76, FT_CARD_MEMORY = 0.85;

/* Training of large models reaches 44 to 52 % of the tensor cores' peak on A100 (Narayanan et al.,
 * "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021,
 * table 1). */
const double FT_CARD_TENSOR = 0.52;

const ft_card *ft_card_find(const char *name)
{
    for (int i = 0; i < FT_CARDS; i++)
        if (strcmp(ft_cards[i].name, name) == 0) return &ft_cards[i];
    return NULL;
}

static char lower(char c)
{
    return (char)(c | ('A' <= c && c <= 'Z' ? 0x20 : 0));
}

int ft_letters_apart(const char *a, const char *b)
{
    enum { MOST = 32 };
    int row[MOST + 1], n = (int)strlen(b);
    if (n > MOST) return n;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int above = row[j], best = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            if (above + 1 < best) best = above + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[n];
}

const ft_card *ft_card_nearest(const char *name)
{
    const ft_card *best = NULL;
    int best_distance = 3; /* further off, another card is as likely */
    for (int i = 0; i < FT_CARDS; i++) {
        int d = ft_letters_apart(name, ft_cards[i].name);
        if (d < best_distance && d < (int)strlen(name)) {
            best = &ft_cards[i];
            best_distance = d;
        }
    }
    return best;
}
