/* test/test_tokens_added.c - tokens of files beside the vocabulary. */
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "no_memory.h"
#include "tokens/tokens.h"
#include "tokens/internal.h"
#include "tokenizer_files.h"

/* vocab.txt with these files; the error is printed unless it is the one that is expected. */
static ft_tokenizer *with_files(ft_token_files files, const char *expected)
{
    ft_tokenizer *tokenizer;
    ft_error err = {0};
    CHECK_STATUS(ft_tokenizer_load_wordpiece(&tokenizer, vocab_txt, sizeof vocab_txt - 1, "own",
                                             &uncased, NULL, &err),
                 FT_OK);
    ft_status status = ft_tokenizer_add_files(tokenizer, &files, "own", &err);
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
    char *text;
    int64_t size;
    ft_error err;
    ft_tokenizer *tokenizer =
        with_files((ft_token_files){.added = SLICE(added_json), .map = SLICE(map_json)}, NULL);
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
}

/* The same in tokenizer_config.json, which says more of each. */
static void settings_beside(void)
{
    ft_token_files files = {.settings = SLICE(settings_json)};
    ft_tokenizer *tokenizer = with_files(files, NULL);
    CHECK(ft_tokenizer_size(tokenizer) == N_ALL);
    CHECK(ft_tokenizer_special(tokenizer, "sep") == NEW);
    CHECK(ft_tokenizer_special(tokenizer, "mask") == MASK);
    check_ids(tokenizer, "hello <new> COVIDhello <NEW>",
              (int32_t[]){HELLO, NEW, COVID, HELLO, UNK, UNK, UNK}, 7);
    check_ids(tokenizer, "UPup", (int32_t[]){UP, UNK}, 2);
    ft_tokenizer_free(tokenizer);
    /* added_tokens.json repeats ids, and special_tokens_map.json names without their blanks. */
    files.added = SLICE(added_json);
    files.map = SLICE(map_json);
    tokenizer = with_files(files, NULL);
    check_ids(tokenizer, "COVID <new> up", (int32_t[]){COVID, NEW, UNK}, 3);
    ft_tokenizer_free(tokenizer);
}

/* Files that say what cannot be. */
static void wrong_files(void)
{
    static const char *const added[][2] = {
        {"[1]", "own/added_tokens.json: expected an object of ids by text"},
        {"{\"a\": \"b\"}", "own/added_tokens.json: 'a' has no id, expected an integer from 0"},
        {"{\"a\": 5}", "own/added_tokens.json: added token 'a' has id 5, which is that of 'hello'"},
        {"{\"a\": 16}", "own/added_tokens.json: no piece has id 14, and another one has 16"},
    };
    for (size_t i = 0; i < sizeof added / sizeof *added; i++)
        with_files((ft_token_files){.added = {added[i][0], (int64_t)strlen(added[i][0])}},
                   added[i][1]);
    with_files((ft_token_files){.map = SLICE("{\"sep_token\": 7}")},
               "own/special_tokens_map.json: sep_token is not a text, or an object with one as "
               "content");
    with_files((ft_token_files){.settings = SLICE("{\"added_tokens_decoder\": {\"x\": {}}}")},
               "own/tokenizer_config.json: added_tokens_decoder: 'x' is no id of an object with a "
               "text as content");
    with_files((ft_token_files){.settings = SLICE(
                                    "{\"added_tokens_decoder\": {\"5\": {\"content\": \"a\"}}}")},
               "own/tokenizer_config.json: added token 'a' has id 5, which is that of 'hello'");
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
                                       NULL, err));
    ft_token_files files = {
        .settings = SLICE(settings_json), .added = SLICE(added_json), .map = SLICE(map_json)};
    ft_status status = ft_tokenizer_add_files(tokenizer, &files, "own", err);
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
    RUN(settings_beside);
    RUN(wrong_files);
    RUN(blanks_between);
    RUN(no_memory);
    return check_report();
}
