/* base/sha256.h - a name for bytes that no other bytes have. */
#ifndef FT_BASE_SHA256_H
#define FT_BASE_SHA256_H

#include <stdint.h>

enum { FT_SHA256_BYTES = 32 };

/* The SHA-256 digest (FIPS 180-4) of `size` bytes. */
void ft_sha256(const void *bytes, int64_t size, uint8_t digest[FT_SHA256_BYTES]);

#endif
