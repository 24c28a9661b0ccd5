/* test/test_io_shared.c - the room's behaviour on published files: the safetensors accept and
 * reject cases, and JSONTestSuite. They are test inputs that do not come with the sources; where
 * they are absent only JSON cases of our own run, and the skip is said. */
#include "io/io.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "shared.h"

/* -- safetensors ------------------------------------------------------------------------------ */

/* What a rule of the reference reader is called there, and in our messages. Numbers past 63 bits
 * are refused while the JSON is read, before the product of the shape could overflow. */
static const struct {
    const char *theirs, *ours[2];
} rules[] = {
    {"HeaderTooSmall", {"is too small for a header length"}},
    {"HeaderTooLarge", {"is over the limit"}},
    {"InvalidHeaderLength", {"reaches past the end"}},
    {"InvalidHeaderDeserialization", {": tensor '", ": header"}},
    {"InvalidHeader", {"is not UTF-8"}},
    {"InvalidOffset", {"do not continue at byte"}},
    {"ValidationOverflow", {"overflows 64 bits", "too big integer"}},
    {"MisalignedSlice", {"do not fill whole bytes"}},
    {"TensorInvalidInfo", {"its shape and dtype"}},
    {"MetadataIncompleteBuffer", {"tensors cover"}},
    {"must be rejected", {"duplicate object key"}},
};

static bool right_rule(const char *theirs, const char *message)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strncmp(theirs, rules[i].theirs, strlen(rules[i].theirs)) != 0) continue;
        for (int j = 0; j < 2; j++)
            if (rules[i].ours[j] && strstr(message, rules[i].ours[j])) return true;
        return strstr(theirs, "values must be strings") && strstr(message, "is not a string");
    }
    return false;
}

static void one_case(const char *name, const char *expected)
{
    char path[1024];
    ft_error err = {0};
    ft_archive *archive;
    snprintf(path, sizeof path, "%s/data/safetensors_cases/%s.safetensors", shared_root(), name);
    ft_status status = ft_archive_open(&archive, path, &err);
    bool ok = strncmp(expected, "OK", 2) == 0;
    bool right = ok ? status == FT_OK : status == FT_FORMAT && right_rule(expected, err.message);
    if (!CHECK(right)) fprintf(stderr, "%s: expected %s, got: %s\n", name, expected, err.message);
    for (int i = 0; status == FT_OK && i < ft_archive_count(archive); i++) {
        const ft_entry *entry = ft_archive_entry(archive, i);
        if (!entry->readable) continue;
        void *bytes = ft_alloc(ft_spec_bytes(&entry->spec));
        ft_view view = ft_view_of(&entry->spec, bytes);
        CHECK_STATUS(ft_archive_read(archive, i, &view, &err), FT_OK);
        ft_free(bytes);
    }
    ft_archive_close(archive);
}

static void safetensors_cases(void)
{
    char *text = shared_read("data/safetensors_cases/expected.tsv");
    if (!text) return;
    int n = 0;
    char *rest = NULL;
    strtok_r(text, "\n", &rest); /* the names of the columns */
    for (char *line; (line = strtok_r(NULL, "\n", &rest)); n++) {
        char *column = NULL, *name = strtok_r(line, "\t", &column);
        strtok_r(NULL, "\t", &column);
        one_case(name, strtok_r(NULL, "\t", &column));
    }
    CHECK(n >= 41);
    ft_free(text);
}

/* -- JSON ------------------------------------------------------------------------------------- */

/* Where jansson, as we call it, deliberately differs from RFC 8259. */
static const struct {
    const char *name, *reason;
} deviations[] = {
    {"y_object_duplicated_key.json", "duplicate keys are refused"},
    {"y_object_duplicated_key_and_value.json", "duplicate keys are refused"},
    {"y_object_escaped_null_in_key.json", "a NUL would cut the key for C readers"},
    {"y_string_null_escape.json", "a NUL would cut the string for C readers"},
};

static bool deviates(const char *name)
{
    for (size_t i = 0; i < sizeof deviations / sizeof *deviations; i++)
        if (strcmp(deviations[i].name, name) == 0) return true;
    return false;
}

static void one_json(const char *folder, const char *name)
{
    char path[1024];
    ft_error err = {0};
    json_t *value;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ft_status status = ft_json_read(&value, path, &err);
    json_decref(value);
    CHECK(status == FT_OK || status == FT_FORMAT);
    if (status != FT_OK) CHECK(!strchr(err.message, '\n') && strstr(err.message, name));
    if (name[0] == 'i') return;
    bool accepted = (name[0] == 'y') != deviates(name);
    if (!CHECK((status == FT_OK) == accepted)) fprintf(stderr, "%s: %s\n", name, err.message);
}

static void json_test_suite(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s/data/robust/JSONTestSuite/test_parsing", shared_root());
    DIR *directory = opendir(folder);
    if (!directory) {
        printf("skipped: JSONTestSuite: no %s\n", folder);
        return;
    }
    int n = 0;
    for (struct dirent *e; (e = readdir(directory));)
        if (strstr(e->d_name, ".json")) one_json(folder, e->d_name), n++;
    closedir(directory);
    CHECK(n >= 300);
}

typedef struct json_case {
    const char *text, *words; /* words NULL: accepted */
} json_case;

static const json_case json_cases[] = {
    {"1", NULL},
    {"{\"a\":[true,null,-1.5e3,\"\\ud834\\udd1e\"]}", NULL},
    {" \t\n[]", NULL},
    {"", "x:1:0: "},
    {"{\"a\":1,\n\"a\":2}", "x:2:3: duplicate object key"},
    {"[1,]", "x:1:4: "},
    {"[1]]", "x:1:4: end of file expected"},
    {"[1e400]", "real number overflow"},
    {"[99999999999999999999]", "too big integer"},
    {"[\"\\u0000\"]", "\\u0000"},
    {"[\"\xc0\x80\"]", "x:1:"},
    {"[\"\\ud800\"]", "x:1:"},
    {"[\"a\nb\"]", "x:1:"},
    {"\xef\xbb\xbf[]", "x:1:"},
};

static void json_own(void)
{
    for (size_t i = 0; i < sizeof json_cases / sizeof *json_cases; i++) {
        const json_case *c = &json_cases[i];
        ft_error err = {0};
        json_t *value;
        ft_status status = ft_json_parse(&value, c->text, (int64_t)strlen(c->text), "x", &err);
        bool right =
            c->words ? status == FT_FORMAT && strstr(err.message, c->words) : status == FT_OK;
        if (!CHECK(right)) fprintf(stderr, "case %zu: '%s'\n", i, err.message);
        json_decref(value);
    }
    json_t *value;
    ft_error err = {0};
    CHECK_STATUS(ft_json_parse(&value, "[\n1]\0]", 6, "x", &err), FT_FORMAT);
    CHECK(strcmp(err.message, "x:2:3: NUL byte") == 0);
    CHECK_STATUS(ft_json_parse(&value, "[1]garbage", 3, "x", &err), FT_OK); /* size counts */
    json_decref(value);
    int64_t n = 200000;
    char *deep = ft_alloc(n);
    memset(deep, '[', (size_t)n);
    CHECK_STATUS(ft_json_parse(&value, deep, n, "x", &err), FT_FORMAT);
    CHECK(strstr(err.message, "depth"));
    ft_free(deep);
}

int main(void)
{
    RUN(safetensors_cases);
    RUN(json_test_suite);
    RUN(json_own);
    return check_report();
}
