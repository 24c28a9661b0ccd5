/* tokens/encode.c - many texts encoded at once, on several threads. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "tokens/tokens.h"

enum { MAX_THREADS = 64 };

/* Texts that threads take one after the other. */
typedef struct encode_job {
    const ft_tokenizer *tokenizer;
    ft_encoding *texts;
    int64_t n;
    atomic_int_fast64_t next;
    pthread_mutex_t lock;
    int64_t failed; /* number of the first text that failed, n for none; guarded by lock */
    ft_error err;   /* why; guarded by lock */
} encode_job;

static void note_failure(encode_job *job, int64_t i, const ft_error *err)
{
    pthread_mutex_lock(&job->lock);
    if (i < job->failed) {
        job->failed = i;
        job->err = *err;
    }
    pthread_mutex_unlock(&job->lock);
}

static void *encode_some(void *context)
{
    encode_job *job = context;
    int64_t i;
    while ((i = atomic_fetch_add(&job->next, 1)) < job->n) {
        ft_error err;
        ft_encoding *text = &job->texts[i];
        ft_status status =
            ft_tokenizer_encode(job->tokenizer, text->text, text->size, &text->ids, &text->n, &err);
        if (status != FT_OK) note_failure(job, i, &err);
    }
    return NULL;
}

/* Starts up to n threads; returns how many there are. */
static int start_threads(encode_job *job, pthread_t *threads, int n)
{
    int started = 0;
    while (started < n && ft_thread_start(&threads[started], encode_some, job, NULL) == FT_OK)
        started++;
    return started;
}

ft_status ft_encode_texts(const ft_tokenizer *tokenizer, ft_encoding *texts, int64_t n,
                          int n_threads, ft_error *err)
{
    pthread_t threads[MAX_THREADS];
    encode_job job = {.tokenizer = tokenizer, .texts = texts, .n = n, .failed = n};
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    pthread_mutex_init(&job.lock, NULL);
    /* The caller works too: fewer threads, or none, only take longer. */
    int started = start_threads(&job, threads, (int64_t)n_threads < n ? n_threads - 1 : 0);
    encode_some(&job);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&job.lock);
    if (job.failed == n) return FT_OK;
    if (err) *err = job.err;
    return job.err.status;
}
