/* test/test_tokens_kinds.c - WordPiece, byte-level BPE and tokenizer.json: merging against a plain
 * loop, several threads on one tokenizer, and what happens without memory. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "check.h"
#include "no_memory.h"
#include "tokens/tokens.h"
#include "tokens/internal.h"
#include "tokenizer_files.h"

/* -- merging ---------------------------------------------------------------------------------- */

enum { LETTERS = 4, RULES = 12, LONGEST = 40, ROUNDS = 4000 };

typedef struct rule {
    int32_t left, right, whole;
} rule;

/* The definition: the leftmost pair of the lowest rank, until there is none. */
static int64_t merge_plainly(const rule *rules, int32_t *ids, int64_t n)
{
    for (int r = 0; r < RULES;) {
        int64_t at = 0;
        while (at + 1 < n && !(ids[at] == rules[r].left && ids[at + 1] == rules[r].right)) at++;
        if (at + 1 >= n) {
            r++;
            continue;
        }
        ids[at] = rules[r].whole;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
        r = 0;
    }
    return n;
}

static void merging(void)
{
    ft_rng rng;
    ft_merge_space space = {0};
    ft_rng_init(&rng, 7, 0);
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ft_merges merges = {0};
        rule rules[RULES];
        for (int r = 0; r < RULES; r++) {
            uint64_t known = (uint64_t)(LETTERS + r);
            rules[r] = (rule){(int32_t)ft_rng_below(&rng, known),
                              (int32_t)ft_rng_below(&rng, known), LETTERS + r};
            /* the first of equal pairs counts */
            wrong += !ft_merges_add(&merges, rules[r].left, rules[r].right, rules[r].whole);
        }
        int32_t ids[LONGEST], plain[LONGEST];
        int64_t n = (int64_t)ft_rng_below(&rng, LONGEST + 1);
        for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)ft_rng_below(&rng, LETTERS);
        memcpy(plain, ids, sizeof ids);
        int64_t left = ft_merges_apply(&merges, &space, ids, n);
        int64_t wanted = merge_plainly(rules, plain, n);
        wrong += left != wanted || memcmp(ids, plain, (size_t)wanted * sizeof *ids) != 0;
        ft_merges_fini(&merges);
    }
    CHECK(wrong == 0);
    ft_merge_space_fini(&space);
}

/* -- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, TEXTS = 3000 };

static const char *const words[] = {" ab", "abcd", "cdab", " aa", "ba", "dd", "ababab", " "};

/* The same words in an order of their own; the sum of all ids does not depend on it. */
static void *encode_many(void *context)
{
    const ft_tokenizer *tokenizer = context;
    int64_t sum = 0;
    for (int i = 0; i < TEXTS; i++) {
        int32_t *ids;
        int64_t n;
        const char *word = words[i % 8];
        if (ft_tokenizer_encode(tokenizer, word, (int64_t)strlen(word), &ids, &n, NULL) != FT_OK)
            return NULL;
        for (int64_t k = 0; k < n; k++) sum += (ids[k] + 1) * (k + 1);
        ft_free(ids);
    }
    return (void *)(uintptr_t)sum;
}

static void threads(void)
{
    ft_tokenizer *tokenizer;
    ft_error err = {0};
    pthread_t all[THREADS];
    void *sums[THREADS];
    if (!CHECK(ft_tokenizer_load_byte_bpe(&tokenizer, SLICE(vocab_json), SLICE(merges_txt), false,
                                          "own", &err) == FT_OK)) {
        fprintf(stderr, "%s\n", err.message);
        return;
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i], NULL, encode_many, tokenizer) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], &sums[i]);
    for (int i = 0; i < THREADS; i++) CHECK(sums[i] && sums[i] == sums[0]);
    ft_tokenizer_free(tokenizer);
}

/* -- no memory -------------------------------------------------------------------------------- */

static ft_status use(const ft_tokenizer *tokenizer, const char *text, ft_error *err)
{
    int32_t *ids = NULL, *segments = NULL;
    int64_t n = 0, size;
    char *back = NULL;
    ft_strings strings = {0};
    ft_slice slice = {text, (int64_t)strlen(text)};
    ft_status status = FT_OK;
    bool pairs = ft_tokenizer_special(tokenizer, "cls") != FT_NO_ID ||
                 strcmp(ft_tokenizer_kind(tokenizer), "wordpiece") != 0;
    if (pairs)
        FT_GO(ft_tokenizer_encode_pair(tokenizer, slice, &slice, &ids, &segments, &n, err));
    else
        FT_GO(ft_tokenizer_encode(tokenizer, text, slice.size, &ids, &n, err));
    FT_GO(ft_tokenizer_decode(tokenizer, ids, n, false, &back, &size, err));
    FT_GO(ft_basic_split(text, slice.size, &uncased, &strings, err));
done:
    ft_free(ids);
    ft_free(segments);
    ft_free(back);
    ft_strings_fini(&strings);
    return status;
}

static ft_status try_kind(int kind, ft_error *err)
{
    const ft_slice json[] = {SLICE(wordpiece_json), SLICE(bpe_json), SLICE(unigram_json),
                             SLICE(chain_json)};
    static const char *const texts[] = {"Hello, running![MASK]",
                                        " abcd<|endoftext|>ba",
                                        "hello!\xC3\xA9 [MASK]",
                                        "abab<|endoftext|>aab",
                                        "ab a</s>",
                                        " \xC3\xA9 A b1.abab\xC3\xB6",
                                        "a\xC3\xA9 </s>"};
    ft_tokenizer *tokenizer;
    if (kind == 0)
        FT_TRY(ft_tokenizer_load_wordpiece(&tokenizer, vocab_txt, sizeof vocab_txt - 1, "own",
                                           &uncased, NULL, err));
    else if (kind == 1)
        FT_TRY(ft_tokenizer_load_byte_bpe(&tokenizer, SLICE(vocab_json), SLICE(merges_txt), true,
                                          "own", err));
    else if (kind == 6)
        FT_TRY(ft_tokenizer_load_bytes(&tokenizer, 3, err));
    else
        FT_TRY(ft_tokenizer_load_json(&tokenizer, json[kind - 2].bytes, json[kind - 2].size, NULL,
                                      "own", err));
    ft_status status = use(tokenizer, texts[kind], err);
    ft_tokenizer_free(tokenizer);
    return status;
}

static ft_status try_one(void *kind, ft_error *err)
{
    return try_kind(*(const int *)kind, err);
}

static void no_memory(void)
{
    for (int kind = 0; kind < 7; kind++) check_without_memory(try_one, &kind, 3);
}

int main(void)
{
    RUN(merging);
    RUN(threads);
    RUN(no_memory);
    return check_report();
}
