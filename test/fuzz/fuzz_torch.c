/* test/fuzz/fuzz_torch.c - any bytes as a zip file of PyTorch: the directory, its entries, the
 * names and shapes in data.pkl. */
#include "io/io.h"

#include "archive_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return open_archive(data, size);
}
