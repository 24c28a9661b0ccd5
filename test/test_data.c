/* test/test_data.c - datasets, and datasets as bytes. */
#include "data/data.h"

#include <string.h>

#include "base/alloc.h"
#include "check.h"
#include "no_memory.h"

/* Two fields that go together, one on its own. */
static const ft_data_field fields[] = {{"source", 0}, {"segments", 0}, {"target", 1}};

static void datasets(void)
{
    ft_dataset *dataset;
    ft_error err = {0};
    int32_t ids[] = {1, 2, 3};
    CHECK_STATUS(ft_dataset_new(&dataset, fields, 3, &err), FT_OK);
    CHECK(ft_dataset_n_fields(dataset) == 3);
    CHECK(ft_dataset_find(dataset, "target") == 2 && ft_dataset_find(dataset, "x") == -1);
    const ft_id_run none[] = {{ids, 0}, {ids, 0}, {ids, 1}}, end[] = {{ids, 1}, {ids, 1}, {ids, 0}};
    const ft_id_run uneven[] = {{ids, 1}, {ids, 2}, {ids, 1}};
    CHECK_STATUS(ft_dataset_add(dataset, none, &err), FT_INVALID);
    CHECK_STATUS(ft_dataset_add(dataset, end, &err), FT_INVALID);
    CHECK_STATUS(ft_dataset_add(dataset, uneven, &err), FT_INVALID);
    CHECK(strstr(err.message, "has 1 ids in field 'source' and 2 in 'segments'"));
    CHECK(ft_dataset_size(dataset) == 0 && ft_dataset_longest(dataset, 0) == 0);
    const ft_id_run first[] = {{ids, 3}, {ids, 3}, {ids, 1}};
    const ft_id_run second[] = {{ids, 2}, {ids, 2}, {ids + 1, 2}};
    CHECK_STATUS(ft_dataset_add(dataset, first, &err), FT_OK);
    CHECK_STATUS(ft_dataset_add(dataset, second, &err), FT_OK);
    CHECK(ft_dataset_size(dataset) == 2);
    CHECK(ft_dataset_longest(dataset, 0) == 3 && ft_dataset_longest(dataset, 2) == 2);
    ft_id_run target = ft_dataset_get(dataset, 1, 2);
    CHECK(target.n == 2 && target.ids[0] == 2 && target.ids[1] == 3);
    ft_dataset_free(dataset);
}

static void bad_fields(void)
{
    static const struct {
        const char *words;
        ft_data_field fields[FT_MAX_FIELDS + 1];
        int n;
    } cases[] = {
        {"0 fields", {{"a", 0}}, 0},
        {"9 fields", {{"a", 0}}, FT_MAX_FIELDS + 1},
        {"two fields are called 'a'", {{"a", 0}, {"a", 1}}, 2},
        {"field 1 has a name of 0", {{"a", 0}, {"", 1}}, 2},
        {"'a' is of length group 1, expected 0 to 0", {{"a", 1}}, 1},
        {"'b' is of length group 2, expected 0 to 1", {{"a", 0}, {"b", 2}}, 2},
        {"'a' is of length group -1", {{"a", -1}}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_dataset *dataset;
        ft_error err = {0};
        CHECK_STATUS(ft_dataset_new(&dataset, cases[i].fields, cases[i].n, &err), FT_INVALID);
        if (!CHECK(!dataset && strstr(err.message, cases[i].words)))
            fprintf(stderr, "'%s'\n", err.message);
    }
}

/* -- datasets as bytes ------------------------------------------------------------------------ */

static ft_dataset *two_examples(void)
{
    ft_dataset *dataset = NULL;
    ft_error err = {0};
    const int32_t ids[] = {3, 70000, FT_IGNORED_LABEL};
    const ft_id_run first[] = {{ids, 2}, {ids, 2}, {ids + 2, 1}};
    const ft_id_run second[] = {{ids, 1}, {ids, 1}, {ids, 3}};
    CHECK_STATUS(ft_dataset_new(&dataset, fields, 3, &err), FT_OK);
    CHECK_STATUS(ft_dataset_add(dataset, first, &err), FT_OK);
    CHECK_STATUS(ft_dataset_add(dataset, second, &err), FT_OK);
    return dataset;
}

/* Bytes that were changed are a dataset too, or refused; never more than they hold. */
static void changed_bytes(const uint8_t *bytes, int64_t size)
{
    uint8_t copy[512];
    if (!CHECK(size <= (int64_t)sizeof copy)) return;
    for (int64_t i = 0; i < size; i++) {
        for (int change = 1; change < 256; change += 127) {
            ft_dataset *dataset;
            ft_error err = {0};
            memcpy(copy, bytes, (size_t)size);
            copy[i] = (uint8_t)(copy[i] + change);
            ft_status status = ft_dataset_unpack(&dataset, copy, size, &err);
            CHECK(status == FT_OK || (!dataset && err.message[0]));
            ft_dataset_free(dataset);
        }
    }
}

static void packing(void)
{
    ft_dataset *dataset = two_examples(), *again = NULL;
    ft_error err = {0};
    uint8_t *bytes = NULL, *same = NULL;
    int64_t size, same_size;
    CHECK_STATUS(ft_dataset_pack(dataset, &bytes, &size, &err), FT_OK);
    CHECK_STATUS(ft_dataset_unpack(&again, bytes, size, &err), FT_OK);
    CHECK_STATUS(ft_dataset_pack(again, &same, &same_size, &err), FT_OK);
    CHECK(size == same_size && memcmp(bytes, same, (size_t)size) == 0);
    CHECK(ft_dataset_get(again, 0, 1).ids[1] == 70000 && ft_dataset_longest(again, 2) == 3);
    ft_dataset_free(again);
    for (int64_t n = 0; n < size; n++)
        CHECK_STATUS(ft_dataset_unpack(&again, bytes, n, &err), FT_FORMAT);
    changed_bytes(bytes, size);
    same[size - 4] = 5; /* an id below 0 that is not -100 */
    CHECK_STATUS(ft_dataset_unpack(&again, same, size, &err), FT_FORMAT);
    ft_free(bytes);
    ft_free(same);
    ft_dataset_free(dataset);
}

/* Ids of two bytes up to the last one that fits, with nothing behind them. */
static void packing_wide_ids(void)
{
    for (int32_t id = 65435; id <= 65436; id++) {
        ft_dataset *dataset, *again;
        ft_error err = {0};
        uint8_t *bytes = NULL;
        int64_t size = 0;
        const ft_id_run row[] = {{&id, 1}, {&id, 1}, {&id, 1}};
        CHECK_STATUS(ft_dataset_new(&dataset, fields, 3, &err), FT_OK);
        CHECK_STATUS(ft_dataset_add(dataset, row, &err), FT_OK);
        CHECK_STATUS(ft_dataset_pack(dataset, &bytes, &size, &err), FT_OK);
        CHECK_STATUS(ft_dataset_unpack(&again, bytes, size, &err), FT_OK);
        CHECK(ft_dataset_get(again, 0, 2).ids[0] == id);
        ft_dataset_free(again);
        ft_dataset_free(dataset);
        bytes = ft_realloc(bytes, size + 1);
        bytes[size] = 0;
        CHECK_STATUS(ft_dataset_unpack(&again, bytes, size + 1, &err), FT_FORMAT);
        ft_free(bytes);
    }
}

/* -- no memory -------------------------------------------------------------------------------- */

static ft_status try_dataset(void *none, ft_error *err)
{
    (void)none;
    ft_dataset *dataset;
    static const int32_t ids[600];
    const ft_id_run row[] = {{ids, 600}, {ids, 600}, {ids, 5}};
    FT_TRY(ft_dataset_new(&dataset, fields, 3, err));
    ft_status status = FT_OK;
    for (int i = 0; i < 100; i++) {
        FT_GO(ft_dataset_add(dataset, row, err));
        CHECK(ft_dataset_size(dataset) == i + 1);
    }
done:
    ft_dataset_free(dataset);
    return status;
}

static ft_status try_packing(void *none, ft_error *err)
{
    (void)none;
    ft_dataset *dataset, *again = NULL;
    static const int32_t ids[60];
    const ft_id_run row[] = {{ids, 60}, {ids, 60}, {ids, 5}};
    uint8_t *bytes = NULL;
    int64_t size;
    FT_TRY(ft_dataset_new(&dataset, fields, 3, err));
    ft_status status = FT_OK;
    FT_GO(ft_dataset_add(dataset, row, err));
    FT_GO(ft_dataset_pack(dataset, &bytes, &size, err));
    FT_GO(ft_dataset_unpack(&again, bytes, size, err));
done:
    ft_free(bytes);
    ft_dataset_free(again);
    ft_dataset_free(dataset);
    return status;
}

static void no_memory(void)
{
    check_without_memory(try_dataset, NULL, 3);
    check_without_memory(try_packing, NULL, 3);
}

int main(void)
{
    RUN(datasets);
    RUN(bad_fields);
    RUN(packing);
    RUN(packing_wide_ids);
    RUN(no_memory);
    return check_report();
}
