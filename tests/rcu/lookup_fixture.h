/* SPDX-License-Identifier: PostgreSQL */
/* lookup_fixture.h - a lookup table in shared memory with descriptors of its own, for tests. */
#ifndef TESTS_LOOKUP_FIXTURE_H
#define TESTS_LOOKUP_FIXTURE_H

#include <check.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <tidepool/lookup.h>

/* Page id at the start of 32 bytes, or a tag of 20 bytes at the start of 64 as PostgreSQL has it. */
enum key_shape {
	KEY_PAGE_ID,
	KEY_TAG,
	KEY_SHAPES
};

struct table {
	struct tide_lookup_memory memory;
	struct tide_lookup *lookup;
	enum key_shape shape;
	uint32_t n_buffers; /* descriptors, and what memory was laid out for */
	unsigned char *all; /* everything, in one mapping */
	size_t all_bytes;
};

struct key {
	uint32_t words[5];
};

static inline struct key key_of(enum key_shape shape, uint64_t id)
{
	uint32_t file = (uint32_t)(id % 3), page = (uint32_t)(id / 3);

	if (shape == KEY_PAGE_ID)
		return (struct key){{file, 0, page, 0}};
	return (struct key){{1663, 5, 16384 + file, 0, page}};
}

static inline struct table table_new(enum key_shape shape, uint32_t n_buffers, uint32_t start)
{
	struct table table = {.shape = shape, .n_buffers = n_buffers};
	size_t head_bytes = tide_lookup_head_bytes();
	size_t stride = shape == KEY_PAGE_ID ? 32 : 64;
	struct tide_lookup_layout layout;

	tide_lookup_layout(n_buffers, &layout);
	table.all_bytes =
		head_bytes + layout.bucket_bytes + layout.overflow_bytes + n_buffers * stride;
	table.all = mmap(NULL, table.all_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	ck_assert_ptr_ne(table.all, MAP_FAILED);
	table.memory = (struct tide_lookup_memory){
		.head = (struct tide_lookup_head *)table.all,
		.buckets = table.all + head_bytes,
		.overflow = table.all + head_bytes + layout.bucket_bytes,
		.keys = table.all + head_bytes + layout.bucket_bytes + layout.overflow_bytes,
		.stride = stride,
		.length = shape == KEY_PAGE_ID ? 16 : 20,
	};
	ck_assert_int_eq(tide_lookup_init(&table.memory, start, 42, NULL), 0);
	ck_assert_int_eq(tide_lookup_open(&table.memory, &table.lookup, NULL), 0);
	return table;
}

static inline void table_free(struct table *table)
{
	tide_lookup_close(table->lookup);
	munmap(table->all, table->all_bytes);
}

static inline void table_set_key(const struct table *table, uint32_t buffer, struct key key)
{
	size_t at = buffer * table->memory.stride;
	_Atomic uint32_t *words = (_Atomic uint32_t *)((uintptr_t)table->memory.keys + at);

	for (uint32_t i = 0; i < table->memory.length / 4; i++)
		atomic_store_explicit(&words[i], key.words[i], memory_order_relaxed);
}

static inline uint64_t table_hash(const struct table *table, uint64_t id)
{
	struct key key = key_of(table->shape, id);

	return tide_lookup_hash(table->lookup, &key);
}

static inline uint32_t table_find(const struct table *table, uint64_t id)
{
	struct key key = key_of(table->shape, id);

	return tide_lookup_find(table->lookup, &key, tide_lookup_hash(table->lookup, &key));
}

/* What tide_lookup_insert() returns; the key is written into the descriptor before. */
static inline int table_insert(const struct table *table, uint64_t id, uint32_t buffer,
			       uint32_t *existing)
{
	table_set_key(table, buffer, key_of(table->shape, id));
	return tide_lookup_insert(table->lookup, table_hash(table, id), buffer, existing, NULL);
}

static inline void table_enter(const struct table *table, uint64_t id, uint32_t buffer)
{
	uint32_t existing = 0;

	ck_assert_int_eq(table_insert(table, id, buffer, &existing), 0);
	ck_assert_uint_eq(existing, TIDE_LOOKUP_NONE);
}

static inline int table_remove(const struct table *table, uint64_t id, uint32_t buffer)
{
	return tide_lookup_remove(table->lookup, table_hash(table, id), buffer);
}

static inline void table_is_valid(const struct table *table)
{
	struct tide_reason why = {0};

	ck_assert_msg(tide_lookup_valid(table->lookup, &why), "%s", why.message);
}

static inline int table_resize(const struct table *table, uint32_t n_buffers)
{
	int rc;

	do
		rc = tide_lookup_resize(table->lookup, n_buffers, 7, NULL);
	while (rc == 1);
	return rc;
}

/* The next id from *id on whose hash ends in @bits, of which @mask count. */
static inline uint64_t table_collide(const struct table *table, uint64_t *id, uint64_t mask,
				     uint64_t bits)
{
	while ((table_hash(table, *id) & mask) != bits)
		(*id)++;
	return (*id)++;
}

static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1du >> 11;
}

static inline int table_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif /* TESTS_LOOKUP_FIXTURE_H */
