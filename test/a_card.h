/* test/a_card.h - the card that a test is on, and memory that its kernels and the test both reach.
 *
 * It is emulated; with FT_ON_CARDS, which `./dev gpu` runs, the first one of this machine. To be
 * included first. */
#ifndef FT_TEST_A_CARD_H
#define FT_TEST_A_CARD_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "launch/launch.h"

#define FT_TEST_TAKE(bytes)  card_take(bytes)
#define FT_TEST_GIVE(memory) card_give(memory)

/* Memory is taken and given back while a card is open. */
#ifdef FT_ON_CARDS
static const char card_list[] = "cuda:0/64MB";

static inline void *card_take(size_t bytes)
{
    void *memory = NULL;
    int answer =
        ft_cuda_api_load(NULL)->host_alloc(&memory, bytes + 64, CU_HOST_PORTABLE | CU_HOST_MAPPED);
    if (answer) abort();
    return memory;
}

static inline void card_give(void *memory)
{
    if (memory) ft_cuda_api_load(NULL)->host_release(memory);
}

/* Orders of threads are the card's. */
static inline void card_order(unsigned seed)
{
    (void)seed;
}

/* What cards that are opened after it find of cuBLASLt is this machine's. */
static inline void card_library(int which)
{
    (void)which;
}

/* Of the kernels that are launched after it: 90 for 9.0. False: it is this machine's. */
static inline bool card_capability(int capability)
{
    (void)capability;
    return false;
}

/* Kernels launched so far, and products given to cuBLASLt; -1: nobody counts them. */
static inline long card_launches(void)
{
    return -1;
}

static inline long card_products(void)
{
    return -1;
}

static inline bool card_left_nothing(void)
{
    return true;
}
#else
#include "emulation/emulation.h"

static const char card_list[] = "emu:1/64MB";
const ft_driver *const ft_drivers[] = {&ft_cpu_driver, &emu_driver.driver, NULL};
const ft_kernel_list *const ft_kernel_lists[] = {&ft_cpu_kernels, &ft_cuda_kernels, NULL};
const ft_step_kernels *const ft_step_kernel_lists[] = {&ft_cuda_steps, NULL};

static inline void *card_take(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory) abort();
    return memory;
}

static inline void card_give(void *memory)
{
    free(memory);
}

/* In which threads and blocks have their turn, on cards that are opened after it; 0: in theirs. */
static inline void card_order(unsigned seed)
{
    atomic_store(&emulated.seed, seed);
}

/* Whether cards that are opened after it have cuBLASLt: 0 whole, 1 without algorithms, 2 not. */
static inline void card_library(int which)
{
    atomic_store(&emulated.library, which);
}

static inline bool card_capability(int capability)
{
    atomic_store(&emulated.capability, capability);
    return true;
}

static inline long card_launches(void)
{
    return atomic_load(&emulated.launches);
}

static inline long card_products(void)
{
    return atomic_load(&emulated.products);
}

static inline bool card_left_nothing(void)
{
    return atomic_load(&emulated.open) == 0;
}
#endif

typedef struct card {
    ft_device device;
    ft_executor *executor;
    ft_device_stream *stream;
} card;

static inline bool card_open(card *c)
{
    ft_error err = {FT_OK, ""};
    int n;
    *c = (card){0};
    bool ok = ft_devices_parse(card_list, &c->device, &n, &err) == FT_OK &&
              c->device.driver->open(&c->executor, &c->device, &err) == FT_OK &&
              c->device.driver->enter(c->executor, &err) == FT_OK &&
              c->device.driver->open_stream(&c->stream, c->executor, FT_FOR_COMPUTE, &err) == FT_OK;
    if (!ok) fprintf(stderr, "%s\n", err.message);
    return CHECK(ok);
}

static inline void card_close(card *c)
{
    if (!c->device.driver) return;
    c->device.driver->close_stream(c->stream);
    c->device.driver->close(c->executor);
}

static inline ft_status card_finish(const card *c, ft_error *err)
{
    return c->device.driver->finish(c->stream, err);
}

#endif
