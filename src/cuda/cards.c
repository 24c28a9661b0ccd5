/* cuda/cards.c - the cards of this machine, as devices. */
#include <stdio.h>

#include "cuda/given.h"

static const ft_cuda_api *api_of(const ft_driver *driver, ft_error *err)
{
    return ((const ft_cuda_driver *)driver)->api(err);
}

static ft_status answered(int answer, const char *what, ft_error *err)
{
    if (answer == 0) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED, "the CUDA driver cannot say %s (error %d)", what, answer);
}

ft_status ft_cuda_count(const ft_driver *driver, int *n, ft_error *err)
{
    const ft_cuda_api *api = api_of(driver, err);
    *n = 0;
    if (!api) return err ? err->status : FT_UNSUPPORTED;
    FT_TRY(answered(api->device_count(n), "how many cards there are", err));
    if (*n > 0) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED, "the CUDA driver finds no card");
}

int ft_cuda_reach(ft_cuda_peers *peers, const ft_cuda_api *api, int card, int other,
                  cu_context context)
{
    int can = 0;
    if (other >= FT_CUDA_CARDS || atomic_load(&peers->met[other])) return 0;
    int answer = api->can_peer(&can, card, other);
    if (!answer && can) answer = api->enable_peer(context, 0);
    if (answer == CU_PEER_ACCESS_ALREADY) answer = 0; /* by another executor of the card */
    if (!answer) atomic_store(&peers->met[other], true);
    return answer;
}

/* f32 units of a multiprocessor, by compute capability (CUDA C++ programming guide). */
static int units_of(int major, int minor)
{
    if (major < 8 || (major == 8 && minor == 0)) return 64;
    return 128;
}

/* Multiply-adds in 16 bits, with f32 sums, of a multiprocessor's tensor cores in a clock (NVIDIA's
 * white papers: TU102, A100, GA102, Ada, H100, Blackwell); 0: they have none. Newer ones have as
 * many at least as the last of these. */
static int tensor_of(int major, int minor)
{
    static const struct {
        int capability, products;
    } rows[] = {{120, 256}, {100, 4096}, {90, 2048}, {86, 256}, {80, 1024}, {75, 256}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (10 * major + minor >= rows[i].capability) return rows[i].products;
    return 0;
}

/* What cuBLASLt is to work in, by compute capability (cuBLAS's documentation of
 * cublasSetWorkspace), where it is found; with room to align it. */
static int64_t library_bytes_of(const ft_driver *driver, int major, int minor)
{
    static const struct {
        int capability;
        int64_t bytes;
    } rows[] = {{90, 32 << 20}, {0, 4 << 20}};
    size_t i = 0;
    while (10 * major + minor < rows[i].capability) i++;
    bool found = ((const ft_cuda_driver *)driver)->cublas(NULL) != NULL;
    return found ? rows[i].bytes + FT_CUDA_LIBRARY_ALIGN : 0;
}

ft_status ft_cuda_describe(const ft_driver *driver, int card, ft_device *out, ft_error *err)
{
    const ft_cuda_api *api = api_of(driver, err);
    enum { COUNT = 6 };
    static const int attributes[COUNT] = {
        CU_MULTIPROCESSORS, CU_CLOCK_KHZ,        CU_MAJOR,
        CU_MINOR,           CU_MEMORY_CLOCK_KHZ, CU_MEMORY_BUS_BITS};
    int device, is[COUNT];
    size_t memory;
    if (!api) return err ? err->status : FT_UNSUPPORTED;
    FT_TRY(answered(api->device_get(&device, card), "what a card is", err));
    FT_TRY(answered(api->device_memory(&memory, device), "what memory a card has", err));
    for (int i = 0; i < COUNT; i++)
        FT_TRY(
            answered(api->device_attribute(&is[i], attributes[i], device), "what a card is", err));
    double clocks = 1e3 * (double)is[1] * (double)is[0];
    double f16 = 2 * clocks * tensor_of(is[2], is[3]) * FT_CARD_TENSOR;
    double bf16 = is[2] < 8 ? 0 : f16; /* the first of these have f16 alone */
    *out = (ft_device){.kind = driver->kind,
                       .driver = driver,
                       .n_threads = 1,
                       .card = card,
                       .memory_bytes = (int64_t)memory,
                       .library_bytes = library_bytes_of(driver, is[2], is[3]),
                       .flops_per_s = 2 * clocks * units_of(is[2], is[3]) * FT_CARD_PRODUCTS,
                       .bf16_flops_per_s = bf16,
                       .f16_flops_per_s = f16,
                       .tf32_flops_per_s = ft_tf32_rate(bf16),
                       .bytes_per_s = 2e3 * (double)is[4] * (double)is[5] / 8 * FT_CARD_MEMORY,
                       .link_bytes_per_s = 12e9, /* PCI Express 3.0 x16, which all reach */
                       .link_latency_ns = 10000};
    return FT_OK;
}

/* Memory of a card has contents all the time. */
void ft_cuda_occupy(ft_device_stream *on, void *address, int64_t bytes)
{
    (void)on, (void)address, (void)bytes;
}
