/* SPDX-License-Identifier: PostgreSQL */
/*
 * arrays.c - memory beside the pages.
 *
 * 1. n_arrays is stored after more has been committed and before some is given back: what the tables
 *    use is always committed, and what a death leaves too much lies beyond n_arrays.
 * 2. Descriptors of several chunks may share a backing page. It is committed while one of the chunks
 *    has memory.
 */
#include "pool/arrays.h"

#include "pool/lock.h"

#define RANGES 64u

/* Ranges on their way to the kernel; neighbours become one. */
struct batch {
	struct tide_pool *pool;
	int (*call)(struct tide_region *region, const struct tide_range *ranges, size_t n,
		    struct tide_reason *why);
	struct tide_range ranges[RANGES];
	uint32_t n;
	struct tide_reason *why;
};

static int batch_flush(struct batch *batch)
{
	const uint32_t n = batch->n;

	batch->n = 0;
	return n ? batch->call(batch->pool->beside, batch->ranges, n, batch->why) : TIDE_OK;
}

static int batch_add(struct batch *batch, uint64_t offset, uint64_t bytes)
{
	struct tide_range *last = &batch->ranges[batch->n ? batch->n - 1 : 0];
	int code = TIDE_OK;

	if (bytes == 0)
		return TIDE_OK;
	if (batch->n > 0 && last->offset + last->bytes == offset) {
		last->bytes += bytes;
		return TIDE_OK;
	}
	if (batch->n == RANGES)
		code = batch_flush(batch);
	batch->ranges[batch->n++] = (struct tide_range){.offset = offset, .bytes = bytes};
	return code;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

uint32_t arrays_backed(const struct tide_pool *pool)
{
	uint32_t counts[TIDE_CHUNK_STATES];

	tide_chunk_counts(pool->chunks, counts);
	return (pool->shared->layout.n_chunks - counts[TIDE_CHUNK_RETIRED] -
		counts[TIDE_CHUNK_RELEASING])
	       << pool->chunk_shift;
}

/* Backing pages that hold descriptors of a chunk: first and one past the last, as numbers. */
static void descriptor_units(const struct tide_pool *pool, uint32_t chunk, uint64_t *first,
			     uint64_t *end)
{
	const struct layout *layout = &pool->shared->layout;
	const uint64_t bytes = (uint64_t)layout->chunk_buffers * sizeof(struct descriptor);

	*first = chunk * bytes / layout->unit;
	*end = ((chunk + 1) * bytes + layout->unit - 1) / layout->unit;
}

static int unit_in_use(const struct tide_pool *pool, uint64_t unit)
{
	const struct layout *layout = &pool->shared->layout;
	const uint64_t bytes = (uint64_t)layout->chunk_buffers * sizeof(struct descriptor);
	uint64_t chunk = unit * layout->unit / bytes;

	for (; chunk < layout->n_chunks && chunk * bytes < (unit + 1) * layout->unit; chunk++)
		if (pool_chunk_has_memory(pool, (uint32_t)chunk))
			return 1;
	return 0;
}

/* Units of these chunks in which no chunk has memory. @next keeps a shared one from coming twice. */
static int add_units(struct batch *batch, const uint32_t *chunks, uint32_t n)
{
	const struct layout *layout = &batch->pool->shared->layout;
	uint64_t next = 0;
	int code = TIDE_OK;

	for (uint32_t i = 0; i < n && code == TIDE_OK; i++) {
		uint64_t unit, end;

		descriptor_units(batch->pool, chunks[i], &unit, &end);
		for (unit = unit < next ? next : unit; unit < end && code == TIDE_OK; unit++)
			if (!unit_in_use(batch->pool, unit))
				code = batch_add(batch,
						 layout->part[LAYOUT_DESCRIPTORS] +
							 unit * layout->unit,
						 layout->unit);
		next = end;
	}
	return code;
}

/* The part of each array that lies between the needs of two sizes. */
static int add_arrays(struct batch *batch, uint32_t from, uint32_t to)
{
	const struct layout *layout = &batch->pool->shared->layout;
	int code = TIDE_OK;

	for (int part = LAYOUT_BUCKETS; part < LAYOUT_PARTS && code == TIDE_OK; part++) {
		const uint64_t begin =
			round_up(layout_array_bytes((enum layout_part)part, from), layout->unit);
		const uint64_t end =
			round_up(layout_array_bytes((enum layout_part)part, to), layout->unit);

		if (end > begin)
			code = batch_add(batch, layout->part[part] + begin, end - begin);
	}
	return code;
}

static void undo_descriptors(struct tide_pool *pool, const uint32_t *chunks, uint32_t n)
{
	struct batch batch = {.pool = pool, .call = tide_region_decommit};

	(void)add_units(&batch, chunks, n);
	(void)batch_flush(&batch);
}

int arrays_commit(struct tide_pool *pool, const uint32_t *chunks, uint32_t n, uint32_t n_buffers,
		  struct tide_reason *why)
{
	struct shared *shared = pool->shared;
	struct batch batch = {.pool = pool, .call = tide_region_commit, .why = why};
	const uint32_t before = atomic_load_explicit(&shared->n_arrays, memory_order_relaxed);
	int code = add_units(&batch, chunks, n);

	if (code == TIDE_OK)
		code = batch_flush(&batch);
	if (code == TIDE_OK && n_buffers > before)
		code = add_arrays(&batch, before, n_buffers);
	if (code == TIDE_OK)
		code = batch_flush(&batch);
	if (code != TIDE_OK) {
		undo_descriptors(pool, chunks, n);
		batch.call = tide_region_decommit;
		batch.why = NULL;
		batch.n = 0;
		if (n_buffers > before && add_arrays(&batch, before, n_buffers) == TIDE_OK)
			(void)batch_flush(&batch);
		return code;
	}
	if (n_buffers > before)
		atomic_store_explicit(&shared->n_arrays, n_buffers, memory_order_release);
	return TIDE_OK;
}

int arrays_release_descriptors(struct tide_pool *pool, const uint32_t *chunks, uint32_t n,
			       struct tide_reason *why)
{
	struct batch batch = {.pool = pool, .call = tide_region_decommit, .why = why};
	int code;

	/* Whoever reaps looks at descriptors under this lock (reap.c). */
	lock_take(&pool->shared->reap_lock);
	code = add_units(&batch, chunks, n);
	if (code == TIDE_OK)
		code = batch_flush(&batch);
	lock_release(&pool->shared->reap_lock);
	return code;
}

int arrays_trim(struct tide_pool *pool, uint32_t n_buffers, struct tide_reason *why)
{
	struct shared *shared = pool->shared;
	struct batch batch = {.pool = pool, .call = tide_region_decommit, .why = why};
	const uint32_t before = atomic_load_explicit(&shared->n_arrays, memory_order_relaxed);
	int code;

	if (n_buffers >= before)
		return TIDE_OK;
	atomic_store_explicit(&shared->n_arrays, n_buffers, memory_order_release);
	code = add_arrays(&batch, n_buffers, before);
	return code == TIDE_OK ? batch_flush(&batch) : code;
}

/* All descriptors, unit by unit: those with a chunk in use are committed, the others given back. */
static int settle_descriptors(struct tide_pool *pool, struct tide_reason *why)
{
	const struct layout *layout = &pool->shared->layout;
	const uint64_t n_units = layout->part_bytes[LAYOUT_DESCRIPTORS] / layout->unit;
	struct batch commit = {.pool = pool, .call = tide_region_commit, .why = why};
	struct batch release = {.pool = pool, .call = tide_region_decommit, .why = why};
	int code = TIDE_OK;

	for (uint64_t unit = 0; unit < n_units && code == TIDE_OK; unit++)
		code = batch_add(unit_in_use(pool, unit) ? &commit : &release,
				 layout->part[LAYOUT_DESCRIPTORS] + unit * layout->unit,
				 layout->unit);
	if (code == TIDE_OK)
		code = batch_flush(&commit);
	if (code == TIDE_OK)
		code = batch_flush(&release);
	return code;
}

int arrays_settle(struct tide_pool *pool, struct tide_reason *why)
{
	struct shared *shared = pool->shared;
	struct batch batch = {.pool = pool, .call = tide_region_decommit, .why = why};
	int code;

	lock_take(&shared->reap_lock);
	code = settle_descriptors(pool, why);
	lock_release(&shared->reap_lock);
	if (code == TIDE_OK)
		code = add_arrays(&batch,
				  atomic_load_explicit(&shared->n_arrays, memory_order_relaxed),
				  shared->layout.n_buffers);
	return code == TIDE_OK ? batch_flush(&batch) : code;
}
