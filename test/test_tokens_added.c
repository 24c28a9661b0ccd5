/* test/test_tokens_added.c - tokens of files beside the vocabulary. */
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "no_memory.h"
#include "tokens/tokens.h"
#include "tokens/internal.h"
#include "tokenizer_files.h"

/* vocab.txt with these files; the error is printed unless it is the one that is expected. */
static ft_tokenizer *with_files(ft_slice added, ft_slice map, const char *expected)
{
    ft_tokenizer *tokenizer;
    ft_error err = {0};
    CHECK_STATUS(ft_tokenizer_load_wordpiece(&tokenizer, vocab_txt, sizeof vocab_txt - 1, "own",
                                             &uncased, &err),
                 FT_OK);
    ft_status status = ft_tokenizer_add_files(tokenizer, added, map, "own", &err);
    CHECK_STATUS(status, expected ? FT_FORMAT : FT_OK);
    if (expected && !CHECK(strcmp(err.message, expected) == 0))
        fprintf(stderr, "%s\n", err.message);
    if (status == FT_OK) return tokenizer;
    ft_tokenizer_free(tokenizer);
    return NULL;
}

static void check_ids(const ft_tokenizer *tokenizer, const char *text, const int32_t *wanted,
                      int64_t n_wanted)
{
    int32_t *ids;
    int64_t n;
    ft_error err;
    CHECK_STATUS(ft_tokenizer_encode(tokenizer, text, (int64_t)strlen(text), &ids, &n, &err),
                 FT_OK);
    if (!CHECK(n == n_wanted && memcmp(ids, wanted, (size_t)n * sizeof *ids) == 0))
        for (int64_t i = 0; i < n; i++) fprintf(stderr, "%d ", (int)ids[i]);
    ft_free(ids);
}

/* Ids of vocab_txt and added_json. */
enum { UNK = 1, MASK = 4, HELLO = 5, NEW = 14, COVID = 15, UP = 16, N_ALL = 17 };

static void files_beside(void)
{
    ft_slice none = {0};
    char *text;
    int64_t size;
    ft_error err;
    ft_tokenizer *tokenizer = with_files(SLICE(added_json), SLICE(map_json), NULL);
    CHECK(ft_tokenizer_size(tokenizer) == N_ALL);
    CHECK(ft_tokenizer_special(tokenizer, "sep") == NEW);
    CHECK(ft_tokenizer_special(tokenizer, "cls") == 2);
    /* What is only added is met in capitals too, and within words; what is special is not. */
    check_ids(tokenizer, "hello<new>COVIDhello <NEW> Up",
              (int32_t[]){HELLO, NEW, COVID, HELLO, UNK, UNK, UNK, UP}, 8);
    check_ids(tokenizer, "worldhello [MASK]", (int32_t[]){9, 5, 4}, 3);
    const int32_t ids[] = {NEW, HELLO, COVID, UP, MASK};
    CHECK_STATUS(ft_tokenizer_decode(tokenizer, ids, 5, true, &text, &size, &err), FT_OK);
    CHECK(strcmp(text, "hello covid UP") == 0);
    ft_free(text);
    ft_tokenizer_free(tokenizer);

    with_files(SLICE("[1]"), none, "own/added_tokens.json: expected an object of ids by text");
    with_files(SLICE("{\"a\": \"b\"}"), none,
               "own/added_tokens.json: 'a' has no id, expected an integer from 0");
    with_files(SLICE("{\"a\": 5}"), none,
               "own/added_tokens.json: added token 'a' has id 5, which is that of 'hello'");
    with_files(SLICE("{\"a\": 16}"), none,
               "own/added_tokens.json: no piece has id 14, and another one has 16");
    with_files(none, SLICE("{\"sep_token\": 7}"),
               "own/special_tokens_map.json: sep_token is not a text, or an object with one as "
               "content");
}

/* A token that takes blanks away takes none of the token before it, which ends with one. */
static void blanks_between(void)
{
    ft_specials specials = {0};
    CHECK_STATUS(ft_specials_add(&specials, "a ", 2, 0, 0, NULL), FT_OK);
    CHECK_STATUS(ft_specials_add(&specials, "b", 1, 1, FT_SPECIAL_STRIP_LEFT, NULL), FT_OK);
    ft_match match = ft_specials_find(&specials, "a  b", 4, 0);
    CHECK(match.id == 0 && match.from == 0 && match.to == 2);
    match = ft_specials_find(&specials, "a  b", 4, match.to);
    CHECK(match.id == 1 && match.from == 2 && match.to == 4);
    ft_specials_fini(&specials);
}

static ft_status try_files(void *none, ft_error *err)
{
    (void)none;
    ft_tokenizer *tokenizer;
    FT_TRY(ft_tokenizer_load_wordpiece(&tokenizer, vocab_txt, sizeof vocab_txt - 1, "own", &uncased,
                                       err));
    ft_status status =
        ft_tokenizer_add_files(tokenizer, SLICE(added_json), SLICE(map_json), "own", err);
    ft_tokenizer_free(tokenizer);
    return status;
}

static void no_memory(void)
{
    check_without_memory(try_files, NULL, 3);
}

int main(void)
{
    RUN(files_beside);
    RUN(blanks_between);
    RUN(no_memory);
    return check_report();
}
