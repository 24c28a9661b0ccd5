/* nvidia/load.c - CUDA's driver library, cuBLASLt and NCCL, found when they are first asked for. */
#include "nvidia/cublas.h"
#include "nvidia/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdbool.h>

static const char driver_library[] = "libcuda.so.1";

/* A function of a table: its name in the library, where the table has it. */
typedef struct symbol {
    const char *name;
    size_t at;
} symbol;

static const symbol driver_symbols[] = {
#define SYMBOL(field, name, parameters) {#name, offsetof(ft_cuda_api, field)},
    FT_CUDA_API(SYMBOL)
#undef SYMBOL
};

static const symbol cublas_symbols[] = {
#define SYMBOL(field, name, parameters) {#name, offsetof(ft_cublas_api, field)},
    FT_CUBLAS_API(SYMBOL)
#undef SYMBOL
};

static const symbol nccl_symbols[] = {
#define SYMBOL(field, name, parameters) {#name, offsetof(ft_nccl_api, field)},
    FT_NCCL_API(SYMBOL)
#undef SYMBOL
};

/* Fills a table; returns the name of a function that the library does not have, or NULL. */
static const char *find_functions(void *handle, const symbol *symbols, size_t n, void *table)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) return symbols[i].name;
        *(void **)(void *)((char *)table + symbols[i].at) = found;
    }
    return NULL;
}

/* What is looked for once, by whoever asks first. */
typedef struct library {
    void (*load)(void *table, ft_error *err);
    void *table;      /* of its functions */
    ft_error failure; /* FT_OK: they are there */
    bool tried;
    pthread_mutex_t lock;
} library;

static const void *first_asked(library *l, ft_error *err)
{
    pthread_mutex_lock(&l->lock);
    if (!l->tried) l->load(l->table, &l->failure);
    l->tried = true;
    pthread_mutex_unlock(&l->lock);
    if (l->failure.status == FT_OK) return l->table;
    if (err) *err = l->failure;
    return NULL;
}

/* -- the driver -------------------------------------------------------------------------------- */

static void load_driver(void *table, ft_error *err)
{
    ft_cuda_api *api = table;
    void *handle = dlopen(driver_library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        ft_fail(err, FT_UNSUPPORTED, "no CUDA driver is installed: %s", dlerror());
        return;
    }
    const char *text = "unknown";
    const char *lacks =
        find_functions(handle, driver_symbols, sizeof driver_symbols / sizeof *driver_symbols, api);
    if (lacks) {
        ft_fail(err, FT_UNSUPPORTED,
                "the CUDA driver is too old: %s has no %s, expected that of CUDA 11.8 or newer",
                driver_library, lacks);
        return;
    }
    int answer = api->init(0);
    if (answer == 0) return;
    api->error_text(answer, &text);
    ft_fail(err, FT_UNSUPPORTED, "the CUDA driver does not start: %s (%d)", text, answer);
}

const ft_cuda_api *ft_cuda_api_load(ft_error *err)
{
    static ft_cuda_api api;
    static library driver = {load_driver, &api, .lock = PTHREAD_MUTEX_INITIALIZER};
    return first_asked(&driver, err);
}

/* -- cuBLASLt ---------------------------------------------------------------------------------- */

/* The newest one of those that the linker knows and the driver serves, which are of its CUDA or of
 * an older one; or that of a toolkit. */
static void *open_cublas(void)
{
    enum { OLDEST = 11 };
    const ft_cuda_api *api = ft_cuda_api_load(NULL);
    char name[32];
    int version = 0;
    void *handle = NULL;
    if (api) api->version(&version);
    for (int major = version / 1000; major >= OLDEST && !handle; major--) {
        snprintf(name, sizeof name, "libcublasLt.so.%d", major);
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return handle ? handle : dlopen("/usr/local/cuda/lib64/libcublasLt.so", RTLD_NOW | RTLD_LOCAL);
}

static void load_cublas(void *table, ft_error *err)
{
    void *handle = open_cublas();
    if (!handle) {
        ft_fail(err, FT_UNSUPPORTED, "cuBLASLt is not found: %s", dlerror());
        return;
    }
    const char *lacks = find_functions(handle, cublas_symbols,
                                       sizeof cublas_symbols / sizeof *cublas_symbols, table);
    if (lacks) ft_fail(err, FT_UNSUPPORTED, "cuBLASLt has no %s", lacks);
}

const ft_cublas_api *ft_cublas_api_load(ft_error *err)
{
    static ft_cublas_api api;
    static library cublas = {load_cublas, &api, .lock = PTHREAD_MUTEX_INITIALIZER};
    return first_asked(&cublas, err);
}

/* -- NCCL -------------------------------------------------------------------------------------- */

ft_status ft_nccl_check(const ft_nccl_api *api, ft_error *err)
{
    int version = 0;
    int answer = api->version(&version);
    if (answer == 0 && version >= NCCL_OLDEST) return FT_OK;
    return ft_fail(err, FT_UNSUPPORTED,
                   "NCCL is too old: its version is %d, expected %d (2.18) or newer", version,
                   NCCL_OLDEST);
}

static void load_nccl(void *table, ft_error *err)
{
    void *handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        ft_fail(err, FT_UNSUPPORTED,
                "NCCL is not found: %s; expected 2.18 or newer where the linker looks, or in "
                "LD_LIBRARY_PATH",
                dlerror());
        return;
    }
    const char *lacks =
        find_functions(handle, nccl_symbols, sizeof nccl_symbols / sizeof *nccl_symbols, table);
    if (lacks)
        ft_fail(err, FT_UNSUPPORTED, "NCCL is too old: it has no %s, expected 2.18 or newer",
                lacks);
    else
        ft_nccl_check(table, err);
}

const ft_nccl_api *ft_nccl_api_load(ft_error *err)
{
    static ft_nccl_api api;
    static library nccl = {load_nccl, &api, .lock = PTHREAD_MUTEX_INITIALIZER};
    return first_asked(&nccl, err);
}
