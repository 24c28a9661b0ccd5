/* bind_values/json_text.c - JSON to text: the shortest digits that read back as the same number.
 *
 * jansson's own writer prints 17 digits always (1e-06 becomes 9.9999999999999995e-07). Reals keep a
 * point or an exponent, so that 1.0 of a configuration does not come back as 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bind_values/json_text.h"

typedef struct writer {
    ft_text *text;
    int indent; /* spaces of a level; 0 writes one line */
    bool sort;
} writer;

static void write_real(ft_text *text, double value)
{
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    ft_text_add(text, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

/* jansson escapes; a scalar needs nothing else of its writer. */
static void write_string(ft_text *text, const json_t *value)
{
    size_t size = json_dumpb(value, NULL, 0, JSON_ENCODE_ANY);
    char *quoted = ft_alloc((int64_t)size + 1); /* zeroed: the end of the string */
    if (!quoted || size == 0 || json_dumpb(value, quoted, size, JSON_ENCODE_ANY) != size)
        text->failed = true;
    else
        ft_text_add(text, "%s", quoted);
    ft_free(quoted);
}

static void new_line(const writer *w, int depth)
{
    if (w->indent) ft_text_add(w->text, "\n%*s", depth * w->indent, "");
}

static void write_value(const writer *w, const json_t *value, int depth);

static void write_array(const writer *w, const json_t *value, int depth)
{
    size_t n = json_array_size(value);
    ft_text_add(w->text, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) ft_text_add(w->text, w->indent ? "," : ", ");
        new_line(w, depth + 1);
        write_value(w, json_array_get(value, i), depth + 1);
    }
    if (n) new_line(w, depth);
    ft_text_add(w->text, "]");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_object(const writer *w, const json_t *value, int depth)
{
    int64_t n = (int64_t)json_object_size(value), used = 0;
    const char **names = ft_alloc(n * (int64_t)sizeof *names);
    if (!names) {
        w->text->failed = true;
        return;
    }
    json_t *object = (json_t *)(uintptr_t)value; /* iterators only read, but are not const */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it))
        names[used++] = json_object_iter_key(it);
    if (w->sort && n > 0) qsort(names, (size_t)n, sizeof *names, compare_names);
    ft_text_add(w->text, "{");
    for (int64_t i = 0; i < n; i++) {
        if (i) ft_text_add(w->text, w->indent ? "," : ", ");
        new_line(w, depth + 1);
        json_t *name = json_string(names[i]);
        write_string(w->text, name);
        json_decref(name);
        ft_text_add(w->text, ": ");
        write_value(w, json_object_get(value, names[i]), depth + 1);
    }
    if (n) new_line(w, depth);
    ft_text_add(w->text, "}");
    ft_free(names);
}

static void write_value(const writer *w, const json_t *value, int depth)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: write_object(w, value, depth); break;
    case JSON_ARRAY: write_array(w, value, depth); break;
    case JSON_STRING: write_string(w->text, value); break;
    case JSON_INTEGER: ft_text_add(w->text, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: write_real(w->text, json_real_value(value)); break;
    case JSON_TRUE: ft_text_add(w->text, "true"); break;
    case JSON_FALSE: ft_text_add(w->text, "false"); break;
    case JSON_NULL: ft_text_add(w->text, "null"); break;
    }
}

void script_json_write(ft_text *text, const json_t *value, int indent, bool sort)
{
    writer w = {text, indent, sort};
    write_value(&w, value, 0);
}
