/* test/test_tokens_vectors.c - T5's tokenizer against vectors that other implementations published,
 * with T5's own model. They do not come with the sources; what is absent is skipped, and said. */
#include "tokens/tokens.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "shared.h"

enum { T5_EXTRA_IDS = 100, T5_END = 1 };

/* -- what a vector says ----------------------------------------------------------------------- */

/* The text has these ids; the published ones may end in </s>, which encode does not append. */
static bool encodes(const ft_tokenizer *tokenizer, const json_t *text, const json_t *expected)
{
    int32_t *ids;
    int64_t n;
    ft_error err = {0};
    ft_status status = ft_tokenizer_encode(tokenizer, json_string_value(text),
                                           (int64_t)json_string_length(text), &ids, &n, &err);
    if (status != FT_OK) fprintf(stderr, "%s\n", err.message);
    int64_t wanted = (int64_t)json_array_size(expected);
    bool same = status == FT_OK && (wanted == n || wanted == n + 1) && wanted > 0;
    if (same && wanted == n + 1)
        same = json_integer_value(json_array_get(expected, (size_t)n)) == T5_END;
    for (int64_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(expected, (size_t)i)) == ids[i];
    ft_free(ids);
    return same;
}

/* Takes away the spaces that transformers takes away after decoding (clean_up_tokenization_spaces).
 */
static void clean_up(char *text)
{
    static const char *const rules[][2] = {
        {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
        {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t n = strlen(rules[i][0]), m = strlen(rules[i][1]);
        for (char *at = text; (at = strstr(at, rules[i][0])); at += m) {
            memcpy(at, rules[i][1], m);
            memmove(at + m, at + n, strlen(at + n) + 1);
        }
    }
}

static bool decodes(const ft_tokenizer *tokenizer, const json_t *ids, bool skip,
                    const char *expected)
{
    int32_t list[4096];
    int64_t n = (int64_t)json_array_size(ids);
    char *text;
    ft_error err = {0};
    for (int64_t i = 0; i < n && i < 4096; i++)
        list[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    if (ft_tokenizer_decode(tokenizer, list, n, skip, &text, &(int64_t){0}, &err) != FT_OK)
        return false;
    clean_up(text);
    bool same = strcmp(text, expected) == 0;
    if (!same) fprintf(stderr, "decoded '%s', expected '%s'\n", text, expected);
    ft_free(text);
    return same;
}

static bool check_vector(bool same, const json_t *text)
{
    if (!CHECK(same)) fprintf(stderr, "vector '%s'\n", json_string_value(text));
    return same;
}

static json_t *read_json(const char *name)
{
    char *text = shared_read(name);
    if (!text) return NULL;
    json_error_t error;
    json_t *root = json_loads(text, JSON_ALLOW_NUL, &error);
    if (!CHECK(root != NULL)) fprintf(stderr, "%s: %s\n", name, error.text);
    ft_free(text);
    return root;
}

/* -- the sets --------------------------------------------------------------------------------- */

static void transformers_js(const ft_tokenizer *tokenizer)
{
    json_t *root = read_json("data/tokvec/transformersjs/vectors.json"), *vector;
    if (!root) return;
    size_t i;
    int n = 0;
    json_array_foreach(root, i, vector)
    {
        const char *model = json_string_value(json_object_get(vector, "model"));
        if (strcmp(model, "Xenova/t5-small") != 0 && strcmp(model, "google-t5/t5-small") != 0)
            continue;
        const json_t *text = json_object_get(vector, "text");
        const json_t *ids = json_object_get(vector, "ids");
        check_vector(encodes(tokenizer, text, ids), text);
        const char *decoded = json_string_value(json_object_get(vector, "decoded"));
        check_vector(decodes(tokenizer, ids, false, decoded), text);
        n++;
    }
    CHECK(n == 58);
    json_decref(root);
}

static void swift(const ft_tokenizer *tokenizer)
{
    json_t *root = read_json("data/tokvec/swift/tokenizer_tests.json"), *vector;
    if (!root) return;
    size_t i;
    json_t *vectors = json_object_get(root, "t5-base");
    json_array_foreach(vectors, i, vector)
    {
        const json_t *text = json_object_get(vector, "input");
        const json_t *ids = json_object_get(json_object_get(vector, "encoded"), "input_ids");
        const char *all = json_string_value(json_object_get(vector, "decoded_with_special"));
        const char *some = json_string_value(json_object_get(vector, "decoded_without_special"));
        check_vector(encodes(tokenizer, text, ids), text);
        check_vector(decodes(tokenizer, ids, false, all), text);
        check_vector(decodes(tokenizer, ids, true, some), text);
    }
    CHECK(json_array_size(vectors) == 18);
    json_decref(root);
}

static void swift_long_text(const ft_tokenizer *tokenizer)
{
    json_t *root = read_json("data/tokvec/swift/t5_base_encoded.json");
    if (!root) return;
    const json_t *text = json_object_get(root, "text"), *ids = json_object_get(root, "token_ids");
    check_vector(encodes(tokenizer, text, ids), text);
    const json_t *pieces = json_object_get(root, "bpe_tokens");
    int wrong = 0;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        const char *piece = ft_tokenizer_piece(tokenizer, id);
        wrong += id != 2 && strcmp(piece, json_string_value(json_array_get(pieces, i))) != 0;
    }
    CHECK(wrong == 0);
    json_decref(root);
}

static void superglue(const ft_tokenizer *tokenizer)
{
    json_t *root = read_json("data/tokvec/derived/t5_superglue_val_inputs.json"), *vector;
    if (!root) return;
    size_t i;
    json_array_foreach(root, i, vector)
    {
        const json_t *input = json_object_get(vector, "input");
        const json_t *target = json_object_get(vector, "target");
        check_vector(encodes(tokenizer, input, json_object_get(vector, "input_ids")), input);
        check_vector(encodes(tokenizer, target, json_object_get(vector, "target_ids")), target);
        check_vector(decodes(tokenizer, json_object_get(vector, "target_ids"), true,
                             json_string_value(target)),
                     target);
    }
    CHECK(json_array_size(root) == 125);
    json_decref(root);
}

/* Single lines that transformers' own tests have. */
static void single_lines(const ft_tokenizer *tokenizer)
{
    static const char lines[] =
        "[[\"The <extra_id_0> walks in <extra_id_1> park\", [37,32099,10681,16,32098,2447,1]],"
        "[\"Summary of the text.\", [20698,13,8,1499,5,1]],"
        "[\"<pad> Today is <unk> nice day </s>\", [0,1960,19,2,1245,239,1]],"
        "[\"True\", [10998,1]], [\"not_entailment\", [59,834,35,5756,297,1]]]";
    json_t *root = json_loads(lines, 0, NULL), *line;
    size_t i;
    json_array_foreach(root, i, line)
        check_vector(encodes(tokenizer, json_array_get(line, 0), json_array_get(line, 1)),
                     json_array_get(line, 0));
    CHECK(i == 5);
    json_decref(root);
}

int main(void)
{
    static void (*const sets[])(const ft_tokenizer *) = {transformers_js, swift, swift_long_text,
                                                         superglue, single_lines};
    char *model = shared_read("data/vocab/t5/spiece.model");
    if (!model) return 0; /* nothing of this test can run; shared_read said so */
    ft_free(model);
    char path[1024];
    ft_tokenizer *tokenizer;
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/data/vocab/t5/spiece.model", shared_root());
    if (!CHECK(ft_tokenizer_open(&tokenizer, path, T5_EXTRA_IDS, &err) == FT_OK))
        fprintf(stderr, "%s\n", err.message);
    else {
        CHECK(ft_tokenizer_size(tokenizer) == 32100);
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) sets[i](tokenizer);
    }
    ft_tokenizer_free(tokenizer);
    return check_report();
}
