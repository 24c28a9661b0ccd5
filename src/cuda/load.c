/* cuda/load.c - CUDA's driver library, found when it is first asked for. */
#include <dlfcn.h>
#include <pthread.h>

#include "cuda/cuda.h"

static const char library[] = "libcuda.so.1";

/* Once in a process: the library stays. */
typedef struct loaded {
    ft_cuda_api api;
    ft_error error; /* FT_OK: it is there */
} loaded;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(field, name, parameters) {name, offsetof(ft_cuda_api, field)},
    FT_CUDA_API(SYMBOL)
#undef SYMBOL
};

static void find_functions(loaded *l, void *handle)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(handle, symbols[i].name);
        if (!found) {
            ft_fail(&l->error, FT_UNSUPPORTED,
                    "the CUDA driver is too old: %s has no %s, expected that of CUDA 11.8 or newer",
                    library, symbols[i].name);
            return;
        }
        *(void **)(void *)((char *)&l->api + symbols[i].at) = found;
    }
    int answer = l->api.init(0);
    const char *text = "unknown";
    if (answer == 0) return;
    l->api.error_text(answer, &text);
    ft_fail(&l->error, FT_UNSUPPORTED, "the CUDA driver does not start: %s (%d)", text, answer);
}

static void load(loaded *l)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        find_functions(l, handle);
    else
        ft_fail(&l->error, FT_UNSUPPORTED, "no CUDA driver is installed: %s", dlerror());
}

const ft_cuda_api *ft_cuda_api_load(ft_error *err)
{
    static loaded once;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool tried;
    pthread_mutex_lock(&lock);
    if (!tried) load(&once);
    tried = true;
    pthread_mutex_unlock(&lock);
    if (once.error.status == FT_OK) return &once.api;
    if (err) *err = once.error;
    return NULL;
}
