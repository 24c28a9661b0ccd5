/* base/memo.c - see memo.h. */
#include "base/memo.h"

#include <string.h>

#include "base/map.h"

static uint32_t place_of(const ft_memo_key *key)
{
    return ft_hash(FT_HASH_START, (const char *)key->bytes, FT_MEMO_KEY) % FT_MEMO_PLACES;
}

ft_memo_key ft_memo_key_of(const void *bytes, int64_t size)
{
    ft_memo_key key = {{0}};
    memcpy(key.bytes, bytes, (size_t)size);
    return key;
}

bool ft_memo_find(ft_memo *memo, const ft_memo_key *key, int64_t *answer)
{
    uint32_t i = place_of(key);
    pthread_mutex_lock(&memo->lock);
    bool found = memo->places[i].there && !memcmp(&memo->places[i].key, key, sizeof *key);
    if (found) *answer = memo->places[i].answer;
    pthread_mutex_unlock(&memo->lock);
    return found;
}

void ft_memo_keep(ft_memo *memo, const ft_memo_key *key, int64_t answer)
{
    uint32_t i = place_of(key);
    pthread_mutex_lock(&memo->lock);
    memo->places[i].key = *key;
    memo->places[i].answer = answer;
    memo->places[i].there = true;
    pthread_mutex_unlock(&memo->lock);
}
