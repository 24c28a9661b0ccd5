/* base/memo.h - answers that were found before, by any thread.
 *
 * Of questions whose answers are whole numbers, take long to find and never change. A question that
 * hashes to the place of another takes it: what is asked for again is mostly there. */
#ifndef FT_BASE_MEMO_H
#define FT_BASE_MEMO_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { FT_MEMO_KEY = 48, FT_MEMO_PLACES = 4096 };

/* All that an answer depends on, as bytes; those behind the last are zero. */
typedef struct ft_memo_key {
    uint8_t bytes[FT_MEMO_KEY];
} ft_memo_key;

/* Starts as FT_MEMO_EMPTY, mostly a static one of a function. */
typedef struct ft_memo {
    pthread_mutex_t lock;
    struct {
        ft_memo_key key;
        int64_t answer;
        bool there;
    } places[FT_MEMO_PLACES];
} ft_memo;

#define FT_MEMO_EMPTY                                                                              \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

/* The key of `size` bytes, at most FT_MEMO_KEY. */
ft_memo_key ft_memo_key_of(const void *bytes, int64_t size);
/* Whether the answer is there; it goes to *answer. */
bool ft_memo_find(ft_memo *memo, const ft_memo_key *key, int64_t *answer);
/* Keeps an answer. */
void ft_memo_keep(ft_memo *memo, const ft_memo_key *key, int64_t answer);

#endif
