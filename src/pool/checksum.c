/* SPDX-License-Identifier: PostgreSQL */
/* pool/checksum.c - the checksum that a page carries in storage. */
#include "pool/checksum.h"

#include <endian.h>
#include <string.h>
#include <xxhash.h>

/* The finisher of splitmix64: a bijection; every bit of the input moves half of the output. */
static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* Pages of one file never share a seed; those of two files only by chance, of 1 in 2^64. */
static uint64_t seed_of(const struct tide_page_id *id)
{
	return mix(mix(id->file + UINT64_C(0x9e3779b97f4a7c15)) + id->page);
}

uint64_t checksum_of(const void *page, uint32_t page_bytes, uint32_t offset,
		     const struct tide_page_id *id)
{
	const unsigned char *bytes = page;
	const uint32_t after = offset + (uint32_t)sizeof(uint64_t);
	/* A hash in pieces has a state of no stable size: so the hash of one seeds the next. */
	const uint64_t before = XXH3_64bits_withSeed(bytes, offset, seed_of(id));
	const uint64_t checksum = XXH3_64bits_withSeed(bytes + after, page_bytes - after, before);

	return checksum != 0 ? checksum : 1;
}

void checksum_put(void *page, uint32_t offset, uint64_t checksum)
{
	const uint64_t stored = htole64(checksum);

	memcpy((unsigned char *)page + offset, &stored, sizeof(stored));
}

uint64_t checksum_get(const void *page, uint32_t offset)
{
	uint64_t stored;

	memcpy(&stored, (const unsigned char *)page + offset, sizeof(stored));
	return le64toh(stored);
}

int checksum_is_hole(const void *page, uint32_t page_bytes)
{
	const unsigned char *bytes = page;

	/* Each byte equals the one before it, and the first is zero. */
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, page_bytes - 1) == 0;
}
