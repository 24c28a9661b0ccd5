/* test/test_data_answer.c - answers in the form in which SQuAD's evaluation compares them. */
#include "data/data.h"

#include <string.h>

#include "base/alloc.h"
#include "check.h"

typedef ft_status (*text_map)(const char *text, int64_t size, char **out, int64_t *n,
                              ft_error *err);

static bool maps(text_map map, const char *text, int64_t size, const char *wanted)
{
    char *out = NULL;
    int64_t n = 0;
    ft_error err = {0};
    bool same = map(text, size, &out, &n, &err) == FT_OK && n == (int64_t)strlen(wanted) &&
                strcmp(out, wanted) == 0;
    if (!same) fprintf(stderr, "'%s' gives '%s'\n", text, out ? out : err.message);
    ft_free(out);
    return same;
}

static void normal_forms(void)
{
    static const struct {
        const char *text, *normal;
    } rows[] = {
        {"", ""},
        {"The", ""},
        {"a an the other", "other"},
        {"  The  Denver-Broncos! ", "denverbroncos"},
        {"theatre Anna A.B.", "theatre anna ab"},
        {"24\xe2\x80\x93\x61 10", "24\xe2\x80\x93 10"},  /* an en dash is a boundary of words */
        {"\xc3\xa9\x61 x", "\xc3\xa9\x61 x"},            /* a letter with accent is not */
        {"a\xcc\x81", "\xcc\x81"},                       /* a mark of its own is */
        {"\xc3\x89\xc2\xa0\xe2\x80\x83X", "\xc3\xa9 x"}, /* blanks of Unicode */
        {"\x1cx\x1fy\xc2\x85", "x y"},
        {"\xce\x9f\xce\xa3 \xce\xa3", "\xce\xbf\xcf\x82 \xcf\x83"}, /* final sigma, a lone one */
        {"\xce\x9f\xce\xa3'\xce\x9f", "\xce\xbf\xcf\x83\xce\xbf"},  /* a mark inside a word */
        {"\xc4\xb0", "i\xcc\x87"},                                  /* I with dot */
        {"\xc8\xba\xc8\xba", "\xe2\xb1\xa5\xe2\xb1\xa5"},           /* grows */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(maps(ft_answer_normal, rows[i].text, (int64_t)strlen(rows[i].text), rows[i].normal));
    char many[2 * 500], *out;
    int64_t n;
    for (int i = 0; i < 500; i++) memcpy(many + 2 * i, "\xc8\xba", 2);
    CHECK_STATUS(ft_answer_normal(many, sizeof many, &out, &n, NULL), FT_OK);
    CHECK(n == 3 * 500);
    ft_free(out);
}

static void squeezed(void)
{
    CHECK(maps(ft_answer_squeeze, "", 0, ""));
    CHECK(maps(ft_answer_squeeze, " \n\t", 3, ""));
    CHECK(maps(ft_answer_squeeze, " A\xc2\xa0\xe3\x80\x80 b\n", 9, "A b"));
}

static void not_utf8(void)
{
    static const text_map maps_of[] = {ft_answer_normal, ft_answer_squeeze};
    for (size_t i = 0; i < sizeof maps_of / sizeof *maps_of; i++) {
        ft_error err = {0};
        char *out;
        int64_t n;
        CHECK_STATUS(maps_of[i]("ab\xff", 3, &out, &n, &err), FT_FORMAT);
        CHECK(strcmp(err.message, "answer: byte 0xff at position 3 is not UTF-8") == 0);
        CHECK(!out);
        ft_alloc_fail_after(1);
        CHECK_STATUS(maps_of[i]("ab", 2, &out, &n, &err), FT_NOMEM);
        ft_alloc_fail_after(0);
        CHECK(!out);
    }
}

int main(void)
{
    RUN(normal_forms);
    RUN(squeezed);
    RUN(not_utf8);
    return check_report();
}
