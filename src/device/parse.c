/* device/parse.c - device lists: "cpu:2x4/8GB", "sim:8x2080ti".
 *
 *   list  = "cpu" | "cpu:" N [ "x" T ] [ "/" size ] [ "@" size "/s" ]
 *         | "cuda" [ ":" card { "," card } ] [ "/" [ N "x" ] size ]
 *         | "sim:" group { ( "," | "+" ) group }
 *   group = N "x" ( card [ "/" size ] | size )
 *   size  = number ( "B" | "kB" | "KiB" | "MB" | "MiB" | "GB" | "GiB" | "TB" | "TiB" ) */
#include "device/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What "8x11GB" means besides its size: a mid-range card on PCIe 3.0 x16. */
static const ft_card generic = {"card", 0, 10e12, 500e9, 12e9, 0, 0};

enum { SIM_LATENCY_NS = 10000, CPU_LATENCY_NS = 1000 };

/* Sustained rates of one CPU thread: vector width times two units times multiply and add, at 2.5
 * GHz and four fifths of the peak (what a packed matrix product reaches); memory as rows that are
 * not products reach it when every core is busy (with 13 GB/s bench/pipeline.lua finds the stages
 * of t5-small equal to 1 %). */
static const double cpu_thread_flops[FT_ISA_COUNT] = {8 * 2e9, 32 * 2e9, 64 * 2e9};
/* Products of bf16 operands, conversions included, against f32: measured with AVX512-BF16, and
 * where it is slow. */
static const double cpu_bf16_speedup = 1.9, slow_bf16_speedup = 1;
/* With a matrix unit (ft_cpu_tiles), where products in f32 are its as well: 265 and 295 GFLOP/s of
 * 256 rows, in bf16 700 and 960 (bench/results/2026-11-29-products-bf16.txt), where vectors have
 * 146: less by as much as they are rated. */
static const double unit_thread_flops = 256e9, unit_bf16_speedup = 3;
static const double cpu_thread_bytes_per_s = 13e9, cpu_link_bytes_per_s = 8e9;

/* -- pieces --------------------------------------------------------------------------------- */

typedef struct reader {
    const char *text; /* the whole list */
    const char *at;
    char shown[104]; /* its begin, for messages: without control characters */
    bool of_hosts;   /* at what each process has */
    ft_error *err;
} reader;

static ft_status refuse(const reader *r, const char *expected)
{
    size_t at = (size_t)(r->at - r->text), length = strlen(r->shown);
    if (!*r->at)
        return ft_fail(r->err, FT_INVALID, "device list \"%s\": at its end: expected %s", r->shown,
                       expected);
    return ft_fail(r->err, FT_INVALID,
                   "device list \"%s\": at \"%.40s\" (character %d): expected %s", r->shown,
                   r->shown + (at < length ? at : length), (int)at + 1, expected);
}

static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static ft_status refuse_more(const reader *r)
{
    char expected[64];
    snprintf(expected, sizeof expected, "no more than %d devices in all", FT_MAX_DEVICES);
    return refuse(r, expected);
}

/* A whole number in [1, max]. */
static ft_status read_count(reader *r, int max, const char *what, int *out)
{
    char expected[96];
    snprintf(expected, sizeof expected, "%s, a whole number from 1 to %d", what, max);
    const char *start = r->at;
    int64_t value = 0;
    while (*r->at >= '0' && *r->at <= '9' && value <= max) value = value * 10 + (*r->at++ - '0');
    if (r->at == start || value < 1 || value > max) {
        r->at = start;
        return refuse(r, expected);
    }
    *out = (int)value;
    return FT_OK;
}

static double unit_bytes(const char *unit, size_t length)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B", 1},    {"kB", 1e3},     {"KiB", 0x1p10}, {"MB", 1e6},    {"MiB", 0x1p20},
                 {"GB", 1e9}, {"GiB", 0x1p30}, {"TB", 1e12},    {"TiB", 0x1p40}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == length && !strncmp(units[i].name, unit, length))
            return units[i].bytes;
    return 0;
}

static ft_status read_bytes(reader *r, const char *expected, int64_t *out)
{
    const char *start = r->at;
    size_t digits = strspn(start, "0123456789.");
    size_t letters = strcspn(start + digits, ",+/@");
    char number[32] = {0};
    if (digits == 0 || digits >= sizeof number) return refuse(r, expected);
    memcpy(number, start, digits);
    char *end;
    double bytes = strtod(number, &end) * unit_bytes(start + digits, letters);
    if (*end || !(bytes >= 1 && bytes <= 1e15)) return refuse(r, expected);
    *out = (int64_t)bytes;
    r->at = start + digits + letters;
    return FT_OK;
}

static ft_status read_size(reader *r, int64_t *out)
{
    return read_bytes(r, "a size such as 11GB, 512MiB or 1.5GiB (GB is 10^9, GiB 2^30)", out);
}

static ft_status read_rate(reader *r, int64_t *out)
{
    FT_TRY(read_bytes(r, "a rate such as 2GB/s", out));
    if (!take(r, "/s")) return refuse(r, "\"/s\" behind a rate, as in cpu:2/64MB@2GB/s");
    return FT_OK;
}

/* -- cpu ------------------------------------------------------------------------------------ */

const ft_driver *ft_driver_find(const char *name, size_t n)
{
    for (int i = 0; ft_drivers[i]; i++)
        if (strlen(ft_drivers[i]->name) == n && strncmp(ft_drivers[i]->name, name, n) == 0)
            return ft_drivers[i];
    return NULL;
}

/* What each of a list's CPU devices has; 0: what is there for memory, and no limit. */
typedef struct cpu_share {
    int threads;
    int64_t memory, host_limit;
    bool unpacked;
} cpu_share;

static void fill_cpu(ft_device *out, int n, const cpu_share *share, const ft_driver *driver)
{
    int threads = share->threads;
    int64_t memory = share->memory;
    double flops = (ft_cpu_tiles() ? unit_thread_flops : cpu_thread_flops[ft_cpu_isa()]) * threads;
    double bf16 = flops * (ft_cpu_tiles()       ? unit_bf16_speedup
                           : ft_cpu_slow_bf16() ? slow_bf16_speedup
                                                : cpu_bf16_speedup);
    double tf32 = driver->kind == FT_DEVICE_GPU ? ft_tf32_rate(bf16) : 0;
    if (!memory) memory = ft_cpu_memory_bytes() / n;
    for (int i = 0; i < n; i++) {
        out[i] = (ft_device){.kind = driver->kind,
                             .driver = driver,
                             .index = i,
                             .n_threads = threads,
                             .memory_bytes = memory,
                             .of_machine = !share->memory,
                             .flops_per_s = flops,
                             .bf16_flops_per_s = bf16,
                             .f16_flops_per_s = driver->kind == FT_DEVICE_GPU ? bf16 : 0,
                             .tf32_flops_per_s = tf32,
                             .bytes_per_s = cpu_thread_bytes_per_s * threads,
                             .link_bytes_per_s = cpu_link_bytes_per_s,
                             .link_latency_ns = CPU_LATENCY_NS,
                             .host_limit = (double)share->host_limit,
                             .unpacked = share->unpacked};
        snprintf(out[i].name, sizeof out[i].name, "%.16s:%d", driver->name, i);
    }
}

/* What is behind the number of devices and threads. */
static ft_status read_share(reader *r, const ft_driver *driver, cpu_share *share)
{
    share->unpacked = driver->kind == FT_DEVICE_CPU && take(r, "/unpacked");
    if (share->unpacked) return FT_OK;
    if (take(r, "/")) FT_TRY(read_size(r, &share->memory));
    if (take(r, "@")) FT_TRY(read_rate(r, &share->host_limit));
    share->unpacked = driver->kind == FT_DEVICE_CPU && take(r, "/unpacked");
    return FT_OK;
}

static ft_status parse_cpu(reader *r, const ft_driver *driver, ft_device *out, int *n)
{
    int count = ft_cpu_cores();
    cpu_share share = {.threads = 1};
    if (count > FT_MAX_DEVICES) count = FT_MAX_DEVICES;
    if (take(r, ":")) {
        FT_TRY(read_count(r, FT_MAX_DEVICES, "the number of devices", &count));
        if (take(r, "x")) FT_TRY(read_count(r, 256, "the threads of each device", &share.threads));
    }
    FT_TRY(read_share(r, driver, &share));
    if (*r->at)
        return refuse(r, "nothing more, as in cpu, cpu:2 (devices), cpu:2x4 (threads of each), "
                         "cpu:2/4GB (memory of each), cpu:2/4GB@2GB/s (rate of swaps) or "
                         "cpu:2/4GB/unpacked (no packed copies of weights)");
    fill_cpu(out, count, &share, driver);
    *n = count;
    return FT_OK;
}

/* -- cards ---------------------------------------------------------------------------------- */

static ft_status refuse_number(const reader *r, int n)
{
    char expected[96];
    snprintf(expected, sizeof expected, "the number of a card, from 0 to %d", n - 1);
    return refuse(r, expected);
}

/* Which of n cards are named; all, where none is. */
static ft_status read_cards(reader *r, int n, bool *named)
{
    bool some = take(r, ":");
    for (int i = 0; i < n; i++) named[i] = !some;
    while (some) {
        char *end;
        long card = strtol(r->at, &end, 10);
        if (*r->at < '0' || *r->at > '9' || card >= n) return refuse_number(r, n);
        if (named[card]) return refuse(r, "a card that was not named before");
        named[card] = true;
        r->at = end;
        some = take(r, ",");
    }
    return FT_OK;
}

/* "4x11GB", "11GB" or nothing: into how many devices each card is divided, and their memory. */
static ft_status read_division(reader *r, int *parts, int64_t *memory)
{
    *parts = 1;
    *memory = 0;
    if (take(r, "/")) {
        const char *digits = r->at + strspn(r->at, "0123456789");
        if (*digits == 'x') {
            FT_TRY(read_count(r, FT_MAX_DEVICES, "the devices on each card", parts));
            take(r, "x");
        }
        FT_TRY(read_size(r, memory));
    }
    if (!*r->at) return FT_OK;
    return refuse(r, "nothing more, as in cuda, cuda:0,1 (cards) or cuda:0/4x11GB (devices on each "
                     "card and their memory)");
}

/* Of a card that is given no budget: its context, the library's kernels and graphs need some of its
 * memory, which no plan counts. */
static int64_t budget_of_card(int64_t memory)
{
    const int64_t most = 1000000000, spare = memory / 16;
    return memory - (spare < most ? spare : most);
}

static ft_status parse_cards(reader *r, const ft_driver *driver, ft_device *out, int *n)
{
    bool named[FT_MAX_DEVICES];
    int cards, parts;
    int64_t memory;
    ft_status status = driver->count(driver, &cards, r->err);
    if (status != FT_OK) return ft_error_wrap(r->err, "device list \"%s\"", r->shown);
    if (cards > FT_MAX_DEVICES) cards = FT_MAX_DEVICES;
    FT_TRY(read_cards(r, cards, named));
    FT_TRY(read_division(r, &parts, &memory));
    for (int card = 0; card < cards; card++) {
        ft_device device;
        if (!named[card]) continue;
        if (*n + parts > FT_MAX_DEVICES) return refuse_more(r);
        FT_TRY(driver->describe(driver, card, &device, r->err));
        if (memory * parts > device.memory_bytes)
            return ft_fail(r->err, FT_INVALID,
                           "device list \"%s\": %d times %.2f GB on card %d, which has %.2f GB",
                           r->shown, parts, (double)memory / 1e9, card,
                           (double)device.memory_bytes / 1e9);
        device.memory_bytes = memory ? memory : budget_of_card(device.memory_bytes);
        for (int i = 0; i < parts; i++) {
            device.index = *n;
            snprintf(device.name, sizeof device.name, parts > 1 ? "%.14s:%d.%d" : "%.14s:%d",
                     driver->name, card, i);
            out[(*n)++] = device;
        }
    }
    return FT_OK;
}

/* -- sim ------------------------------------------------------------------------------------ */

static const ft_card *take_card(reader *r)
{
    char name[32] = {0};
    size_t length = strcspn(r->at, ",+/");
    if (length >= sizeof name) return NULL;
    memcpy(name, r->at, length);
    const ft_card *card = ft_card_find(name);
    if (card) r->at += length;
    return card;
}

/* Names the card that was meant, when one is near, else lists them. */
static ft_status refuse_card(const reader *r)
{
    char name[32] = {0}, expected[256];
    size_t length = strcspn(r->at, ",+/");
    if (length < sizeof name) memcpy(name, r->at, length);
    const ft_card *near = ft_card_nearest(name);
    int used = snprintf(expected, sizeof expected,
                        "a size such as 11GB, or a card%s%s%s:", near ? " (did you mean " : "",
                        near ? near->name : "", near ? "?)" : "");
    for (int i = 0; i < FT_CARDS && used < (int)sizeof expected; i++)
        used += snprintf(expected + used, sizeof expected - (size_t)used, " %s", ft_cards[i].name);
    return refuse(r, expected);
}

static ft_status parse_group(reader *r, ft_device *out, int *n)
{
    int count;
    int64_t memory = 0;
    FT_TRY(read_count(r, FT_MAX_DEVICES - *n, "the number of devices", &count));
    if (!take(r, "x")) return refuse(r, "\"x\" and what each device is, as in 8x11GB or 8x2080ti");
    const ft_card *c = take_card(r);
    if (!c) {
        c = &generic;
        ft_error ignored;
        reader probe = {.text = r->text, .at = r->at, .err = &ignored};
        if (read_size(&probe, &memory) != FT_OK) return refuse_card(r);
        r->at = probe.at;
    } else if (take(r, "/"))
        FT_TRY(read_size(r, &memory));
    double bf16 = c->bf16_flops_per_s * FT_CARD_TENSOR;
    for (int i = 0; i < count; i++, ++*n) {
        out[*n] = (ft_device){.kind = FT_DEVICE_SIM,
                              .index = *n,
                              .n_threads = 1,
                              .memory_bytes = memory ? memory : (int64_t)c->memory_bytes,
                              .flops_per_s = c->flops_per_s * FT_CARD_PRODUCTS,
                              .bf16_flops_per_s = bf16,
                              .f16_flops_per_s = c->f16_flops_per_s * FT_CARD_TENSOR,
                              .tf32_flops_per_s = ft_tf32_rate(bf16),
                              .bytes_per_s = c->bytes_per_s * FT_CARD_MEMORY,
                              .link_bytes_per_s = c->link_bytes_per_s,
                              .link_latency_ns = SIM_LATENCY_NS};
        snprintf(out[*n].name, sizeof out[*n].name, "sim:%d %s", *n, c->name);
    }
    return FT_OK;
}

static ft_status parse_sim(reader *r, ft_device *out, int *n)
{
    int count = 0;
    do {
        if (count == FT_MAX_DEVICES) return refuse_more(r);
        FT_TRY(parse_group(r, out, &count));
    } while (take(r, ",") || take(r, "+"));
    if (*r->at)
        return refuse(r, "nothing more, or \"+\" and a further group, as in 4x2080ti+2x3090");
    *n = count;
    return FT_OK;
}

/* -- kinds ---------------------------------------------------------------------------------- */

/* The kind of device that a list of no kind may have meant, or NULL. */
static const char *kind_meant(const char *list, bool of_hosts)
{
    static const char *const words[][2] = {
        {"cpu", "cpu"}, {"cuda", "cuda"}, {"gpu", "cuda"}, {"sim", "sim"}, {"hosts", "hosts"}};
    enum { OF_HOSTS = 3 }; /* words of those that processes run on */
    size_t n = of_hosts ? OF_HOSTS : sizeof words / sizeof *words;
    char word[8] = {0};
    const char *best = NULL;
    int least = 2; /* letters that differ: further off, another one is as likely */
    size_t length = strcspn(list, ":/,");
    if (length >= sizeof word) return NULL;
    memcpy(word, list, length);
    for (size_t i = 0; i < n; i++) {
        int apart = ft_letters_apart(word, words[i][0]);
        if (!strcmp(word, words[i][1])) return NULL; /* what is behind it is wrong */
        if (apart >= least || length < 3) continue;
        best = words[i][1];
        least = apart;
    }
    return best;
}

static ft_status refuse_kind(const reader *r)
{
    char expected[160];
    const char *meant = kind_meant(r->at, r->of_hosts);
    snprintf(expected, sizeof expected, "cpu, cpu:2, cpu:2x4, cpu:2/4GB%s%s%s%s",
             r->of_hosts ? " or cuda:0,1" : ", cuda:0,1, hosts:2xcpu:1 or sim:8x11GB",
             meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "");
    return refuse(r, expected);
}

/* Devices that processes run on, as a whole list or behind "hosts:2x". */
static ft_status parse_here(reader *r, ft_device *out, int *n)
{
    for (int i = 0; ft_drivers[i]; i++)
        if (take(r, ft_drivers[i]->name))
            return ft_drivers[i]->count ? parse_cards(r, ft_drivers[i], out, n)
                                        : parse_cpu(r, ft_drivers[i], out, n);
    if (take(r, "cuda"))
        return ft_fail(r->err, FT_UNSUPPORTED,
                       "device list \"%s\": this build has no CUDA devices; use cpu:N to run, or "
                       "sim:8x2080ti to plan and simulate",
                       r->shown);
    return refuse_kind(r);
}

/* "2xcpu:4": what each of two processes has, by rank. */
static ft_status parse_hosts(reader *r, ft_device *out, int *n)
{
    int ranks = 0, each = 0;
    FT_TRY(read_count(r, FT_MAX_DEVICES, "the number of processes", &ranks));
    if (!take(r, "x")) return refuse(r, "\"x\" and what each process has, as in hosts:2xcpu:4");
    const char *start = r->at;
    if (!strncmp(start, "sim", 3) || !strncmp(start, "hosts", 5))
        return refuse(r, "devices that processes run on, as in hosts:2xcpu:4");
    r->of_hosts = true;
    FT_TRY(parse_here(r, out, &each));
    r->at = start;
    if (ranks * each > FT_MAX_DEVICES) return refuse_more(r);
    for (int i = ranks * each - 1; i >= 0; i--) {
        char name[sizeof out->name];
        out[i] = out[i % each];
        /* 19: longer than a name of what runs; it fits behind any int */
        snprintf(name, sizeof name, "%d/%.19s", i / each, out[i].name);
        memcpy(out[i].name, name, sizeof name);
        out[i].index = i;
        out[i].rank = i / each;
    }
    *n = ranks * each;
    return FT_OK;
}

ft_status ft_devices_parse(const char *text, ft_device *out, int *n, ft_error *err)
{
    reader r = {.text = text, .at = text, .err = err};
    for (size_t i = 0; text[i] && i + 4 < sizeof r.shown; i++)
        r.shown[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
    *n = 0;
    if (take(&r, "hosts:")) return parse_hosts(&r, out, n);
    if (take(&r, "sim:")) return parse_sim(&r, out, n);
    return parse_here(&r, out, n);
}
