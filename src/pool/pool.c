/* SPDX-License-Identifier: PostgreSQL */
/* pool.c - creating a pool, attaching to one, and letting go of it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "pool/arrays.h"
#include "pool/buffer.h"
#include "pool/clock.h"
#include "pool/lock.h"
#include "pool/shared.h"

#define MIN_PAGE_BYTES 4096u
#define MAX_PAGE_BYTES 65536u
#define MAX_SESSIONS 65536u
#define HUGE_BESIDE_BYTES (UINT64_C(2) << 20)

static int check_config(const struct tide_pool_config *config, struct tide_reason *why)
{
	const uint32_t page = config->page_bytes;

	if (page < MIN_PAGE_BYTES || page > MAX_PAGE_BYTES || (page & (page - 1)))
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "pages of %" PRIu32 " bytes are not supported: a power of "
				       "two from %u to %u",
				       page, MIN_PAGE_BYTES, MAX_PAGE_BYTES);
	if (config->max_bytes < page || config->max_bytes / page > LAYOUT_MAX_BUFFERS)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "a pool of %" PRIu64 " bytes would have %" PRIu64
				       " buffers: 1 to %" PRIu64 " are possible",
				       config->max_bytes, config->max_bytes / page,
				       LAYOUT_MAX_BUFFERS);
	if (config->start_bytes > config->max_bytes || config->min_bytes > config->start_bytes)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "floor %" PRIu64 ", start %" PRIu64 " and ceiling %" PRIu64
				       " are not in this order",
				       config->min_bytes, config->start_bytes, config->max_bytes);
	if (config->max_sessions > MAX_SESSIONS)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "%" PRIu32 " sessions are more than %u",
				       config->max_sessions, MAX_SESSIONS);
	if (!config->name || !config->storage.ops)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "a pool needs a name and a storage");
	return TIDE_OK;
}

static int copy_machine(struct tide_machine *to, const struct tide_machine *from)
{
	const char *const *const in[] = {&from->cgroup_root, &from->proc_root, &from->sys_root};
	const char **const out[] = {&to->cgroup_root, &to->proc_root, &to->sys_root};

	for (int i = 0; i < 3; i++) {
		*out[i] = *in[i] ? strdup(*in[i]) : NULL;
		if (*in[i] && !*out[i])
			return -ENOMEM;
	}
	return 0;
}

static int new_handle(const struct tide_storage *storage, const struct tide_machine *machine,
		      struct tide_pool **out, struct tide_reason *why)
{
	struct tide_pool *pool = calloc(1, sizeof(*pool));

	*out = pool;
	if (pool)
		pool->storage = *storage;
	if (!pool || (machine && copy_machine(&pool->machine, machine) != 0))
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM, "no memory for a pool");
	return TIDE_OK;
}

/* Where everything lies in this process. */
static void locate(struct tide_pool *pool)
{
	char *beside = tide_region_info(pool->beside)->base;
	const struct layout *layout;

	pool->shared = (struct shared *)beside;
	layout = &pool->shared->layout;
	pool->slots = (struct slot *)(beside + layout->slots);
	pool->chunks = (struct tide_chunk_table *)(beside + layout->chunks);
	pool->free_counts = (_Atomic uint32_t *)(beside + layout->free_counts);
	pool->descriptors = (struct descriptor *)(beside + layout->part[LAYOUT_DESCRIPTORS]);
	pool->ghosts.head = &pool->shared->ghosts;
	pool->ghosts.entries = (_Atomic uint64_t *)(beside + layout->part[LAYOUT_GHOSTS]);
	pool->base = tide_region_info(pool->pages)->base;
	pool->page_bytes = layout->page_bytes;
	pool->page_shift = (uint32_t)__builtin_ctz(layout->page_bytes);
	pool->chunk_shift = (uint32_t)__builtin_ctz(layout->chunk_buffers);
}

static struct tide_lookup_memory lookup_memory(const struct tide_pool *pool)
{
	char *beside = (char *)pool->shared;
	const struct layout *layout = &pool->shared->layout;

	return (struct tide_lookup_memory){
		.head = (struct tide_lookup_head *)(beside + layout->lookup),
		.buckets = beside + layout->part[LAYOUT_BUCKETS],
		.overflow = beside + layout->part[LAYOUT_OVERFLOW],
		.keys = pool->descriptors,
		.stride = sizeof(struct descriptor),
		.offset = offsetof(struct descriptor, file),
		.length = sizeof(struct tide_page_id)};
}

static struct tide_grace_table *grace_table(const struct tide_pool *pool)
{
	return (struct tide_grace_table *)((char *)pool->shared + pool->shared->layout.grace);
}

static int open_handles(struct tide_pool *pool, struct tide_reason *why)
{
	const struct tide_lookup_memory memory = lookup_memory(pool);
	int code = tide_grace_open(TIDE_GRACE_SHARED, grace_table(pool), &pool->grace, why);

	return code == TIDE_OK ? tide_lookup_open(&memory, &pool->lookup, why) : code;
}

static int reserve(struct tide_pool *pool, const struct tide_pool_config *config,
		   struct layout *layout, struct tide_reason *why)
{
	struct tide_region_config region = {.name = config->name,
					    .max_bytes = config->max_bytes,
					    .huge = config->huge,
					    .huge_page_bytes = config->huge_page_bytes,
					    .numa = config->numa,
					    .machine = config->machine,
					    .fd = -1};
	uint64_t page_unit;
	int code;

	/* Rounded up to a chunk in any case: what is a chunk is known when the backing page is. */
	code = tide_region_reserve(&region, config->start_bytes, &pool->pages, why);
	if (code != TIDE_OK)
		return code;
	page_unit = tide_region_info(pool->pages)->page_bytes;
	layout_plan(config, page_unit, HUGE_BESIDE_BYTES, layout);
	if (layout->max_bytes > tide_region_info(pool->pages)->max_bytes) {
		tide_region_release(pool->pages);
		pool->pages = NULL;
		region.max_bytes = layout->max_bytes;
		code = tide_region_reserve(&region, config->start_bytes, &pool->pages, why);
		if (code != TIDE_OK)
			return code;
	}
	region.huge_page_bytes = region.huge_page_bytes ? HUGE_BESIDE_BYTES : 0;
	region.max_bytes = layout->beside_bytes;
	code = tide_region_reserve(&region, layout->control_bytes, &pool->beside, why);
	if (code == TIDE_OK)
		layout_plan(config, page_unit, tide_region_info(pool->beside)->page_bytes, layout);
	return code;
}

/* The control part, before anybody else can see it. The magic comes last (open_beside looks for it). */
static int lay_out(struct tide_pool *pool, const struct tide_pool_config *config,
		   const struct layout *layout, struct tide_reason *why)
{
	const struct tide_range control = {.offset = 0, .bytes = layout->control_bytes};
	struct shared *shared = tide_region_info(pool->beside)->base;
	struct stat status;
	int rc, code = tide_region_commit(pool->beside, &control, 1, why);

	if (code != TIDE_OK)
		return code;
	shared->version = SHARED_VERSION;
	shared->bytes = layout->beside_bytes;
	if (fstat(tide_region_fd(pool->pages), &status) != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, errno, "fstat of the pages failed");
	shared->pages_device = status.st_dev;
	shared->pages_file = status.st_ino;
	shared->layout = *layout;
	locate(pool);
	shared->min_bytes = config->min_bytes ? config->min_bytes : layout->chunk_bytes;
	rc = lock_init(&shared->reap_lock);
	if (rc == 0)
		rc = lock_init(&shared->resize_lock);
	if (rc == 0)
		rc = lock_init(&shared->unsynced.lock);
	if (rc != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, rc, "no lock can be made");
	tide_chunk_table_init(pool->chunks, layout->n_chunks, layout->chunk_bytes);
	return tide_grace_table_init(grace_table(pool), layout->max_sessions, why);
}

static uint64_t random_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed))
		return seed;
	return clock_ns();
}

/* The chunks to start with: nobody else is there, so no engine is needed. */
static int start(struct tide_pool *pool, uint32_t n_chunks, struct tide_reason *why)
{
	struct shared *shared = pool->shared;
	const struct tide_range pages = {.offset = 0,
					 .bytes = n_chunks * shared->layout.chunk_bytes};
	const uint32_t n_buffers = n_chunks << pool->chunk_shift;
	const struct tide_lookup_memory memory = lookup_memory(pool);
	int code = TIDE_OK;

	for (uint32_t chunk = 0; chunk < n_chunks && code == TIDE_OK; chunk++)
		code = arrays_commit(pool, &chunk, 1, n_buffers, why);
	if (code == TIDE_OK)
		code = tide_region_commit(pool->pages, &pages, 1, why);
	if (code == TIDE_OK)
		code = tide_lookup_init(&memory, n_buffers, random_seed(), why);
	if (code != TIDE_OK)
		return code;
	ghost_resize(&pool->ghosts, n_buffers);
	for (uint32_t b = 0; b < n_buffers; b++) {
		atomic_store_explicit(&pool->descriptors[b].state, STATE_USABLE,
				      memory_order_relaxed);
		buffer_count_free(pool, b);
	}
	for (uint32_t chunk = 0; chunk < n_chunks; chunk++)
		atomic_store_explicit(&pool->chunks->chunk[chunk].state, TIDE_CHUNK_ACTIVE,
				      memory_order_release);
	atomic_store_explicit(&shared->n_reach, n_buffers, memory_order_release);
	atomic_store_explicit(&shared->n_usable, n_buffers, memory_order_release);
	shared->magic = SHARED_MAGIC;
	return TIDE_OK;
}

int tide_pool_create(const struct tide_pool_config *config, struct tide_pool **out,
		     struct tide_reason *why)
{
	struct tide_pool *pool = NULL;
	struct layout layout;
	uint64_t n_chunks;
	int code;

	if (!config || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no configuration, or no place for the pool");
	*out = NULL;
	code = check_config(config, why);
	if (code == TIDE_OK)
		code = new_handle(&config->storage, &config->machine, &pool, why);
	if (code == TIDE_OK)
		code = reserve(pool, config, &layout, why);
	if (code == TIDE_OK)
		code = lay_out(pool, config, &layout, why);
	if (code == TIDE_OK) {
		n_chunks = (config->start_bytes + layout.chunk_bytes - 1) / layout.chunk_bytes;
		code = start(pool, n_chunks ? (uint32_t)n_chunks : 1, why);
	}
	if (code == TIDE_OK)
		code = open_handles(pool, why);
	if (code != TIDE_OK) {
		tide_pool_detach(pool);
		return code;
	}
	*out = pool;
	return TIDE_OK;
}

void tide_pool_fds(const struct tide_pool *pool, int fds[2])
{
	fds[0] = tide_region_fd(pool->beside);
	fds[1] = tide_region_fd(pool->pages);
}

static int map(int fd, struct tide_region **out, struct tide_reason *why)
{
	struct tide_region_config region = {.name = "attached", .huge = TIDE_HUGE_TRY, .fd = fd};
	struct stat status;

	if (fstat(fd, &status) != 0)
		return tide_reason_set(why, TIDE_BAD_REQUEST, errno,
				       "the descriptor given cannot be used");
	region.max_bytes = (uint64_t)status.st_size;
	if (region.max_bytes < sizeof(struct shared))
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the file given is too short for a pool");
	return tide_region_reserve(&region, 0, out, why);
}

/* Every region's file has a round size: only its number tells whether it is the one. */
static int check_pages(const struct tide_pool *pool, struct tide_reason *why)
{
	const struct shared *shared = tide_region_info(pool->beside)->base;
	struct stat status;

	if (fstat(tide_region_fd(pool->pages), &status) != 0)
		return tide_reason_set(why, TIDE_SYSTEM_ERROR, errno, "fstat of the pages failed");
	if (status.st_dev == shared->pages_device && status.st_ino == shared->pages_file)
		return TIDE_OK;
	return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
			       "the second file given does not hold the pages of this pool");
}

/* A file that is no pool is looked at only where it has memory: a hole would get some by being read. */
static int check_pool(const struct tide_pool *pool, struct tide_reason *why)
{
	const struct shared *shared = tide_region_info(pool->beside)->base;
	uint64_t committed;
	int code = tide_region_audit(pool->beside, &committed, why);

	if (code != TIDE_OK)
		return code;
	if (committed < sizeof(*shared) || shared->magic != SHARED_MAGIC)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "the file given holds no pool");
	if (shared->version != SHARED_VERSION)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the pool has layout version %" PRIu32
				       ", this library knows %u",
				       shared->version, SHARED_VERSION);
	if (shared->bytes > tide_region_info(pool->beside)->max_bytes ||
	    shared->layout.max_bytes > tide_region_info(pool->pages)->max_bytes)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the files given are shorter than the pool says: they do "
				       "not belong together");
	return check_pages(pool, why);
}

int tide_pool_attach(const int fds[2], const struct tide_storage *storage,
		     const struct tide_machine *machine, struct tide_pool **out,
		     struct tide_reason *why)
{
	struct tide_pool *pool = NULL;
	int code;

	if (!fds || !storage || !storage->ops || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no descriptors, no storage, or no place for the pool");
	*out = NULL;
	code = new_handle(storage, machine, &pool, why);
	if (code == TIDE_OK)
		code = map(fds[0], &pool->beside, why);
	if (code == TIDE_OK)
		code = map(fds[1], &pool->pages, why);
	if (code == TIDE_OK)
		code = check_pool(pool, why);
	if (code == TIDE_OK) {
		locate(pool);
		code = open_handles(pool, why);
	}
	if (code != TIDE_OK) {
		tide_pool_detach(pool);
		return code;
	}
	*out = pool;
	return TIDE_OK;
}

void tide_pool_detach(struct tide_pool *pool)
{
	if (!pool)
		return;
	if (pool->lookup)
		tide_lookup_close(pool->lookup);
	if (pool->grace)
		tide_grace_close(pool->grace);
	tide_region_release(pool->beside);
	tide_region_release(pool->pages);
	free((void *)pool->machine.cgroup_root);
	free((void *)pool->machine.proc_root);
	free((void *)pool->machine.sys_root);
	free(pool);
}
