/* bench/bench_tokenizer.c - text into ids: ours against the bare library call, in the same run.
 *
 *    bench_tokenizer [MODEL [TEXT]]
 *
 * Without a model: the small one of the tests. Without a text: lines of its words. Ours checks
 * UTF-8 and looks for special tokens besides. The two are timed in turns, line by line over the
 * whole text, in CPU time; medians are compared, and the numbers of ids have to be equal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../test/spm_model.h"
#include "base/alloc.h"
#include "tokens/tokens.h"
#include "sentencepiece/sentencepiece.h"

enum { ROUNDS = 11, LINES = 4000, MAX_FILE = 64 << 20 };

typedef struct setup {
    ft_tokenizer *ours;
    ft_spm *bare;
    char *text;
    int64_t size;
} setup;

static char *read_file(const char *path, int64_t *size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = file ? ft_alloc(MAX_FILE) : NULL;
    *size = bytes ? (int64_t)fread(bytes, 1, MAX_FILE, file) : 0;
    if (file) fclose(file);
    if (*size == 0) fprintf(stderr, "cannot read %s\n", path);
    return bytes;
}

static char *own_text(int64_t *size)
{
    static const char line[] =
        "hello world, hello hole \xC3\xA9lles <sos> who sells shoes to hell\n";
    int64_t n = (int64_t)sizeof line - 1;
    char *text = ft_alloc(n * LINES);
    for (int i = 0; text && i < LINES; i++) memcpy(text + n * i, line, (size_t)n);
    *size = text ? n * LINES : 0;
    return text;
}

static bool count_ids(void *context, const int *ids, int64_t n)
{
    (void)ids;
    *(int64_t *)context += n;
    return true;
}

/* Of the process: other work on the machine does not count. */
static int64_t cpu_ns(void)
{
    return (int64_t)clock() * (1000000000 / CLOCKS_PER_SEC);
}

/* One pass over all lines; returns ns, and in *n the number of ids. */
static int64_t pass(const setup *s, bool ours, int64_t *n)
{
    int64_t start = cpu_ns();
    *n = 0;
    for (const char *p = s->text, *end = s->text + s->size; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        int64_t size = (newline ? newline : end) - p, count = 0;
        int32_t *ids = NULL;
        if (ours && ft_tokenizer_encode(s->ours, p, size, &ids, &count, NULL) == FT_OK) *n += count;
        if (!ours) ft_spm_encode(s->bare, p, size, count_ids, n, NULL);
        ft_free(ids);
        p += size + 1;
    }
    return cpu_ns() - start;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void measure(const setup *s)
{
    int64_t times[2][ROUNDS], n[2] = {0};
    for (int round = 0; round < ROUNDS; round++)
        for (int ours = 0; ours < 2; ours++) times[ours][round] = pass(s, ours, &n[ours]);
    for (int ours = 0; ours < 2; ours++) {
        qsort(times[ours], ROUNDS, sizeof(int64_t), compare);
        double ns = (double)times[ours][ROUNDS / 2];
        printf("tokenizer %-13s %9lld bytes %9lld ids %8.2f ms %7.2f MB/s\n",
               ours ? "ours" : "sentencepiece", (long long)s->size, (long long)n[ours], ns / 1e6,
               (double)s->size * 1e3 / ns);
    }
    if (n[0] != n[1]) printf("tokenizer: the numbers of ids differ\n");
    printf("tokenizer ratio ours / sentencepiece %.3f (speed; medians of %d)\n",
           (double)times[0][ROUNDS / 2] / (double)times[1][ROUNDS / 2], ROUNDS);
    printf("gate sentencepiece %.3f\n",
           (double)times[0][ROUNDS / 2] / (double)times[1][ROUNDS / 2]);
}

int main(int argc, char **argv)
{
    setup s = {0};
    ft_error err = {0};
    spm_bytes small;
    int64_t n_model = 0;
    char *file = argc > 1 ? read_file(argv[1], &n_model) : NULL;
    spm_model(&small, spm_pieces, SPM_N, NULL, 0);
    const void *model = argc > 1 ? (const void *)file : small.data;
    if (argc <= 1) n_model = small.n;
    s.text = argc > 2 ? read_file(argv[2], &s.size) : own_text(&s.size);
    bool ready = ft_tokenizer_load(&s.ours, model, n_model, 100, &err) == FT_OK &&
                 ft_spm_load(&s.bare, model, n_model, &err) == FT_OK && s.size > 0;
    if (ready)
        measure(&s);
    else
        fprintf(stderr, "%s\n", err.message);
    ft_spm_free(s.bare);
    ft_tokenizer_free(s.ours);
    ft_free(s.text);
    ft_free(file);
    return !ready;
}
