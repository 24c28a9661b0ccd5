/* test/fuzz/fuzz_json.c - any bytes as JSON: what is accepted is written and read again, equal. */
#include <stdlib.h>
#include <string.h>

#include "io/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ft_error err = {0};
    json_t *value, *again;
    if (ft_json_parse(&value, (const char *)data, (int64_t)size, "fuzz", &err) != FT_OK) {
        if (value || strchr(err.message, '\n')) __builtin_trap();
        return 0;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    if (!text || ft_json_parse(&again, text, (int64_t)strlen(text), "fuzz", &err) != FT_OK)
        __builtin_trap();
    if (!json_equal(value, again)) __builtin_trap();
    json_decref(value);
    json_decref(again);
    free(text); /* jansson's, of malloc */
    return 0;
}
