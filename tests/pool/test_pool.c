/* SPDX-License-Identifier: PostgreSQL */
/* Tests of pool.c, layout.c, status.c, check.c: pools of every kind, and what they say of themselves. */
#include "pool_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static int create(const struct tide_pool_config *config, struct tide_pool **pool)
{
	struct tide_reason reason = {0};
	int code = tide_pool_create(config, pool, &reason);

	ck_assert_int_eq(code, reason.code);
	ck_assert_int_eq(code != 0, *pool == NULL);
	return code;
}

static void refuse(const struct tide_pool_config *config)
{
	struct tide_pool *pool = (struct tide_pool *)&pool;

	ck_assert_int_eq(create(config, &pool), TIDE_BAD_REQUEST);
}

START_TEST(settings_out_of_range)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	const struct tide_pool_config good = fx_config(store, 4, 2);
	struct tide_pool_config config;
	struct tide_pool *pool;
	struct tide_reason reason;
	const uint32_t pages[] = {0, 1, 2048, 4095, 12288, 131072};

	for (int i = 0; i < 6; i++) {
		config = good;
		config.page_bytes = pages[i];
		refuse(&config);
	}
	config = good;
	config.max_bytes = 0;
	refuse(&config);
	config.max_bytes = FX_PAGE - 1;
	refuse(&config);
	config = good;
	config.start_bytes = config.max_bytes + 1;
	refuse(&config);
	config = good;
	config.min_bytes = config.start_bytes + 1;
	refuse(&config);
	config = good;
	config.max_sessions = 65537;
	refuse(&config);
	config = good;
	config.name = NULL;
	refuse(&config);
	config = good;
	config.storage.ops = NULL;
	refuse(&config);
	ck_assert_int_eq(tide_pool_create(NULL, &pool, &reason), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_create(&good, NULL, &reason), TIDE_BAD_REQUEST);
	tide_pool_detach(NULL);
}
END_TEST

/* 2^31 - 1 buffers: reserved, not committed. */
START_TEST(largest_pool)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 1, 1);
	struct tide_pool_status status;
	struct tide_pool *pool;

	config.page_bytes = 4096;
	config.max_bytes = UINT64_C(8) << 40;
	refuse(&config);
	config.max_bytes -= 4096;
	config.start_bytes = 0;
#ifdef __SANITIZE_THREAD__ /* leaves too few addresses */
	return;
#endif
	ck_assert_int_eq(create(&config, &pool), 0);
	FX_OK(tide_pool_status(pool, &status, &why));
	ck_assert_uint_le(status.max_bytes / 4096, 0x7fffffff);
	ck_assert_uint_ge(status.max_bytes, (UINT64_C(8) << 40) - status.chunk_bytes);
	ck_assert_uint_eq(status.committed_bytes, status.chunk_bytes);
	ck_assert_uint_le(status.max_bytes / status.chunk_bytes, POOL_MAX_CHUNKS);
	ck_assert_uint_le(status.beside_bytes, 16 * MIB);
	tide_pool_detach(pool);
}
END_TEST

static void check_parts(const struct layout *layout)
{
	uint64_t at = layout->control_bytes;

	ck_assert_uint_eq(layout->control_bytes % layout->unit, 0);
	ck_assert_uint_ge(layout->grace, sizeof(struct shared));
	ck_assert_uint_gt(layout->slots, layout->grace);
	ck_assert_uint_ge(layout->lookup - layout->slots,
			  layout->max_sessions * sizeof(struct slot));
	ck_assert_uint_ge(layout->chunks - layout->lookup, tide_lookup_head_bytes());
	ck_assert_uint_ge(layout->free_counts - layout->chunks,
			  tide_chunk_table_bytes(layout->n_chunks));
	ck_assert_uint_ge(layout->control_bytes - layout->free_counts,
			  layout->n_chunks * sizeof(uint32_t));
	for (int part = 0; part < LAYOUT_PARTS; part++) {
		ck_assert_uint_eq(layout->part[part], at);
		ck_assert_uint_eq(layout->part[part] % layout->unit, 0);
		ck_assert_uint_ge(layout->part_bytes[part],
				  layout_array_bytes((enum layout_part)part, layout->n_buffers));
		at += layout->part_bytes[part];
	}
	ck_assert_uint_eq(layout->beside_bytes, at);
	ck_assert_uint_eq((uint64_t)layout->n_chunks * layout->chunk_bytes, layout->max_bytes);
	ck_assert_uint_eq((uint64_t)layout->n_buffers * layout->page_bytes, layout->max_bytes);
}

START_TEST(layouts)
{
	const uint64_t units[] = {4096, 2 * MIB},
		       sizes[] = {4096, 3 * MIB, GIB, 256 * GIB, 4096 * GIB};
	struct tide_pool_config config = {.max_sessions = 0};
	struct layout layout;

	for (int i = 0; i < 5; i++)
		for (uint32_t page = 4096; page <= 65536; page *= 2)
			for (int u = 0; u < 4; u++) {
				config.max_bytes = sizes[i];
				config.page_bytes = page;
				layout_plan(&config, units[u / 2], units[u % 2], &layout);
				check_parts(&layout);
				ck_assert_uint_le(layout.n_chunks, POOL_MAX_CHUNKS);
				ck_assert_uint_ge(layout.max_bytes, sizes[i]);
				ck_assert_uint_eq(layout.max_sessions, 256);
			}
	config.max_bytes = 10 * GIB;
	layout_plan(&config, GIB, 4096, &layout);
	ck_assert_uint_eq(layout.chunk_bytes, GIB);
	check_parts(&layout);
}
END_TEST

/* Chunks whose descriptors share backing pages, and others that have several of them. */
START_TEST(page_sizes_and_starts)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_storage memory;

	for (uint32_t page = 4096; page <= 65536; page *= 2)
		for (uint32_t start = 0; start <= 5; start += 5) {
			struct tide_pool_config config = fx_config(store, 8, start);
			struct tide_pool_status status;
			struct fx fx = {.store = store};

			FX_OK(tide_memory_open(1, FX_PAGES, page, &memory, &why));
			config.page_bytes = page;
			config.storage = memory;
			config.start_bytes -= start ? 1 : 0; /* is rounded up */
			FX_OK(tide_pool_create(&config, &fx.pool, &why));
			FX_OK(tide_session_open(fx.pool, &fx.s, &why));
			status = fx_status(&fx);
			ck_assert_uint_eq(status.allocatable_bytes, (start ? start : 1) * FX_CHUNK);
			ck_assert_uint_eq(status.page_bytes, page);
			ck_assert_uint_eq(status.chunk_bytes, FX_CHUNK);
			ck_assert_uint_eq(status.max_bytes, 8 * FX_CHUNK);
			ck_assert_uint_eq(status.min_bytes, FX_CHUNK);
			for (uint64_t i = 0; i < FX_PAGES; i += 3) {
				struct tide_fix fix = fx_fix(fx.s, i, TIDE_FIX_WRITE);

				tide_pool_mark_dirty(fx.s, &fix);
				memcpy(fix.page, &i, sizeof(i));
				tide_pool_unfix(fx.s, &fix);
				if (i % 300 == 0)
					(void)fx_resize(fx.s, 1 + (uint32_t)i / 300 * 7 % 8);
			}
			fx_check(&fx);
			for (uint64_t i = 0; i < FX_PAGES; i += 3) {
				struct tide_fix fix = fx_fix(fx.s, i, TIDE_FIX_READ);

				ck_assert_int_eq(memcmp(fix.page, &i, sizeof(i)), 0);
				tide_pool_unfix(fx.s, &fix);
			}
			tide_session_close(fx.s);
			tide_pool_detach(fx.pool);
			tide_memory_close(&memory);
		}
}
END_TEST

/* A ceiling that is no whole chunk is rounded up; the floor is kept. */
START_TEST(odd_sizes)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 5, 3);
	struct tide_request request = {.target_bytes = FX_CHUNK};
	struct tide_progress progress;
	struct tide_reason reason;
	struct fx fx = {.store = store};

	config.max_bytes -= 4097;
	config.min_bytes = 2 * FX_CHUNK;
	FX_OK(tide_pool_create(&config, &fx.pool, &why));
	FX_OK(tide_session_open(fx.pool, &fx.s, &why));
	ck_assert_uint_eq(fx_status(&fx).max_bytes, 5 * FX_CHUNK);
	ck_assert_uint_eq(fx_status(&fx).min_bytes, 2 * FX_CHUNK);
	ck_assert_int_eq(tide_pool_resize(fx.s, &request, &progress, &reason), TIDE_BELOW_MIN);
	(void)fx_resize(fx.s, 2);
	(void)fx_resize(fx.s, 5);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* 1 GiB of 8 KiB pages below a ceiling of 256 GiB: at most 12 MiB beside them. */
static void check_beside(enum tide_huge_policy huge, uint64_t bytes)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 1, 1);
	struct tide_pool_status status;
	struct tide_pool *pool;

	config.page_bytes = 8192;
	config.max_bytes = 256 * GIB;
	config.start_bytes = bytes;
	config.max_sessions = 0;
	config.huge = huge;
	ck_assert_int_eq(create(&config, &pool), 0);
	FX_OK(tide_pool_status(pool, &status, &why));
	ck_assert_uint_eq(status.allocatable_bytes, bytes);
	ck_assert_uint_le(status.beside_bytes, 12 * MIB);
	tide_pool_detach(pool);
}

START_TEST(little_lies_beside_the_pages)
{
	check_beside(TIDE_HUGE_OFF, GIB);
}
END_TEST

/* --- huge pages ----------------------------------------------------------------------------------- */

#define OVERCOMMIT "/proc/sys/vm/nr_overcommit_hugepages"

/* Others change it, too: only the difference is ours. Return: 1, or 0 when it cannot be changed. */
static int change_overcommit(long by)
{
	int fd = open(OVERCOMMIT, O_RDWR | O_CLOEXEC);
	char text[32] = "";
	ssize_t n = 0;

	if (fd < 0)
		return 0;
	flock(fd, LOCK_EX);
	if (pread(fd, text, sizeof(text) - 1, 0) > 0) {
		n = snprintf(text, sizeof(text), "%ld\n", atol(text) + by);
		n = pwrite(fd, text, (size_t)n, 0);
	}
	close(fd);
	return n > 0;
}

/* Return: code of the create. */
static int use_huge_pages(void)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 8, 2);
	struct fx fx = {.store = store};
	struct tide_reason reason = {0};
	int code;

	config.huge = TIDE_HUGE_ON;
	config.huge_page_bytes = 2 * MIB;
	code = tide_pool_create(&config, &fx.pool, &reason);
	if (code != 0)
		return code;
	FX_OK(tide_session_open(fx.pool, &fx.s, &why));
	ck_assert_int_eq(fx_status(&fx).backing, TIDE_BACKING_HUGETLB);
	for (uint32_t size = 1; size <= 8; size++) {
		for (uint64_t page = 0; page < 200; page++)
			fx_put(fx.s, page, size);
		(void)fx_resize(fx.s, size * 5 % 8 + 1);
		for (uint64_t page = 0; page < 200; page++)
			ck_assert_uint_eq(fx_get(fx.s, page), size);
		fx_check(&fx);
	}
	ck_assert_uint_le(fx_status(&fx).beside_bytes, 12 * MIB);
	fx_close(&fx);
	return 0;
}

/* In a child, so that the kernel's setting is put back however it ends. */
START_TEST(huge_pages_on_request)
{
	int status = -1;
	pid_t child;

	if (!change_overcommit(32)) {
		fprintf(stderr, "no huge pages to be had here: skipped\n");
		return;
	}
	child = fork();
	if (child == 0)
		_exit(use_huge_pages() == 0 ? 0 : 77);
	(void)waitpid(child, &status, 0);
	ck_assert(change_overcommit(-32));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		fprintf(stderr, "no huge pages to be had here: skipped\n");
	else
		ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(huge_pages_if_possible)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 4, 2);
	struct fx fx = {.store = store};

	config.huge = TIDE_HUGE_TRY;
	FX_OK(tide_pool_create(&config, &fx.pool, &why));
	FX_OK(tide_session_open(fx.pool, &fx.s, &why));
	(void)fx_resize(fx.s, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* --- status and check ----------------------------------------------------------------------------- */

START_TEST(counts_are_of_all_sessions)
{
	struct tide_session *other;
	struct tide_pool_status status;
	struct fx fx;

	fx_open(&fx, 2, 2);
	FX_OK(tide_session_open(fx.pool, &other, &why));
	for (uint64_t page = 0; page < 10; page++) {
		fx_put(fx.s, page, 1);
		(void)fx_get(other, page);
		(void)fx_get(other, 50 + page);
	}
	status = fx_status(&fx);
	ck_assert_uint_eq(status.sessions, 2);
	tide_session_close(other);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(status.misses, 20);
		ck_assert_uint_eq(status.hits, 10);
		ck_assert_uint_eq(status.read_pages, 20);
		ck_assert_uint_eq(status.cached_pages, 20);
		ck_assert_uint_eq(status.dirty_pages, 10);
		status = fx_status(&fx);
	}
	ck_assert_uint_eq(status.sessions, 1);
	ck_assert_int_eq(status.backing, TIDE_BACKING_BASE);
	fx_close(&fx);
}
END_TEST

static void act_hold_section(struct fx_actor *actor)
{
	tide_reader_enter(&actor->s->reader);
	fx_say(actor, 1);
	tide_reader_leave(&actor->s->reader);
}

/* More blockers than there is room for: all are counted. */
START_TEST(many_blockers)
{
	struct fx_actor actors[10] = {0};
	struct tide_blocker blockers[3];
	struct fx fx;

	fx_open(&fx, 2, 2);
	for (int i = 0; i < 10; i++) {
		fx_start(&actors[i], &fx, act_hold_section);
		fx_await(&actors[i], 1);
	}
	atomic_store(&fx.pool->shared->quiesce_ticket, tide_grace_start(fx.pool->grace));
	ck_assert_uint_eq(tide_pool_blockers(fx.pool, blockers, 3), 10);
	ck_assert_uint_eq(tide_pool_blockers(fx.pool, NULL, 0), 10);
	for (int i = 0; i < 3; i++) {
		ck_assert_uint_eq(blockers[i].process_id, (uint32_t)getpid());
		ck_assert_uint_eq(blockers[i].in_section, 1);
	}
	for (int i = 0; i < 10; i++) {
		fx_let(&actors[i], 1);
		fx_join(&actors[i]);
	}
	ck_assert_uint_eq(tide_pool_blockers(fx.pool, blockers, 3), 0);
	fx_close(&fx);
}
END_TEST

static void expect_contradiction(struct fx *fx, const char *words)
{
	struct tide_reason reason = {0};

	ck_assert_int_eq(tide_pool_check(fx->s, &reason), TIDE_VERIFY_MISMATCH);
	ck_assert_msg(strstr(reason.message, words) != NULL, "%s", reason.message);
}

/* Each kind of damage is found. */
START_TEST(check_finds_damage)
{
	struct tide_session *other;
	struct tide_fix fix;
	struct descriptor *d;
	uint64_t state;
	struct fx fx;

	fx_open(&fx, 2, 2);
	FX_OK(tide_session_open(fx.pool, &other, &why));
	(void)fx_get(fx.s, 5);
	d = &fx.pool->descriptors[fx_buffer(&fx, 5)];
	state = descriptor_state(d);
	atomic_store(&d->state, state | STATE_X);
	expect_contradiction(&fx, "no possible state");
	atomic_store(&d->state, state & ~STATE_FLAGS);
	expect_contradiction(&fx, "retired");
	atomic_store(&d->state, state | STATE_X | 3);
	expect_contradiction(&fx, "owned");
	atomic_store(&d->state, state & ~STATE_VALID);
	expect_contradiction(&fx, "entries");
	atomic_store(&d->state, state);
	atomic_store(&d->page, 6);
	expect_contradiction(&fx, "lookup table does not have it");
	atomic_store(&d->page, 5);
	fix = fx_fix(other, 5, TIDE_FIX_PIN);
	expect_contradiction(&fx, "fixed");
	tide_pool_unfix(other, &fix);
	atomic_store(&fx.pool->chunks->chunk[1].state, TIDE_CHUNK_RETIRED);
	expect_contradiction(&fx, "kernel");
	atomic_store(&fx.pool->chunks->chunk[1].state, TIDE_CHUNK_ACTIVE);
	tide_session_close(other);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(states_that_are_possible)
{
	const uint64_t v = STATE_VERSION * 7;

	ck_assert(state_is_valid(0));
	ck_assert(state_is_valid(v | STATE_WAIT | STATE_BIAS));
	ck_assert(!state_is_valid(v | STATE_VALID));
	ck_assert(!state_is_valid(v | 5));
	ck_assert(state_is_valid(v | STATE_USABLE | STATE_HINT));
	ck_assert(state_is_valid(v | STATE_USABLE | STATE_LOAD | 1));
	ck_assert(!state_is_valid(v | STATE_USABLE | STATE_LOAD));
	ck_assert(!state_is_valid(v | STATE_USABLE | STATE_DIRTY));
	ck_assert(!state_is_valid(v | STATE_USABLE | 9));
	ck_assert(state_is_valid(v | STATE_USABLE | STATE_TORN));
	ck_assert(!state_is_valid(v | STATE_USABLE | STATE_TORN | STATE_VALID));
	ck_assert(state_is_free(v | STATE_USABLE | STATE_HINT | STATE_BIAS | STATE_WAIT));
	ck_assert(!state_is_free(v | STATE_USABLE | STATE_TORN));
	ck_assert(!state_is_free(v));
	ck_assert(!state_is_open(v | STATE_USABLE | STATE_VALID | STATE_X | 1));
	ck_assert(!state_is_resident(v | STATE_USABLE | STATE_VALID | STATE_EVICT | 1));
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(settings_out_of_range),
		FX_TEST(largest_pool),
		FX_TEST(layouts),
		FX_TEST(page_sizes_and_starts),
		FX_TEST(odd_sizes),
		FX_TEST(little_lies_beside_the_pages),
		FX_TEST(huge_pages_on_request),
		FX_TEST(huge_pages_if_possible),
		FX_TEST(counts_are_of_all_sessions),
		FX_TEST(many_blockers),
		FX_TEST(check_finds_damage),
		FX_TEST(states_that_are_possible),
	};

	return fx_run("pool", tests, sizeof(tests) / sizeof(tests[0]));
}
