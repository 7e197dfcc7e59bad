/* SPDX-License-Identifier: PostgreSQL */
/* Tests of relocate.c and drain.c: what a shrink keeps, moves, writes and drops. */
#include "pool_fixture.h"

#define CHUNKS 8u
#define ALL (CHUNKS * FX_CHUNK_BUFFERS)
#define KEPT (2 * FX_CHUNK_BUFFERS)

/* Pages [first, first + n) become hot: far more hits than any other page. */
static void heat(struct fx *fx, uint64_t first, uint64_t n)
{
	for (int round = 0; round < 60; round++)
		for (uint64_t page = first; page < first + n; page++)
			(void)fx_get(fx->s, page);
}

static uint32_t count_cached(struct fx *fx, uint64_t first, uint64_t n)
{
	uint32_t cached = 0;

	for (uint64_t page = first; page < first + n; page++)
		cached += fx_buffer(fx, page) != TIDE_LOOKUP_NONE;
	return cached;
}

static void load(struct fx *fx, int dirty)
{
	fx_open(fx, CHUNKS, CHUNKS);
	for (uint64_t page = 0; page < ALL; page++) {
		if (dirty)
			fx_put(fx->s, page, page + 1);
		else
			(void)fx_get(fx->s, page);
	}
	ck_assert_uint_eq(fx_status(fx).cached_pages, ALL);
}

/* Hot pages lie in the chunks that go, cold ones in those that stay: the hot ones change places. */
static void shrink_around_hot_pages(int dirty, int hot_dirty)
{
	const uint64_t first = ALL - KEPT, n = KEPT - 8;
	struct tide_progress progress;
	struct fx fx;

	load(&fx, dirty);
	if (dirty && !hot_dirty) {
		struct tide_reason why;

		ck_assert_int_eq(tide_pool_flush(fx.s, 0, first, n, &why), 0);
	}
	if (!dirty && hot_dirty)
		for (uint64_t page = first; page < first + n; page++)
			fx_put(fx.s, page, page + 1);
	heat(&fx, first, n);
	fx.store->writes = 0;
	progress = fx_resize(fx.s, 2);
	ck_assert_uint_eq(count_cached(&fx, first, n), n);
	ck_assert_uint_ge(fx_status(&fx).relocated_pages, n);
	for (uint64_t page = first; page < first + n; page++) {
		ck_assert_int_eq((fx_state(&fx, page) & STATE_DIRTY) != 0, hot_dirty);
		ck_assert_uint_eq(fx_get(fx.s, page), dirty || hot_dirty ? page + 1 : 0);
		if (hot_dirty)
			ck_assert_uint_eq(fx_stored(&fx, page)->writes, 0);
	}
	ck_assert_uint_eq(progress.returned_bytes, (CHUNKS - 2) * FX_CHUNK);
	/* Cold pages were written if they were dirty; none is lost. */
	for (uint64_t page = 0; page < ALL; page++)
		ck_assert_uint_eq(
			fx_get(fx.s, page),
			dirty || (hot_dirty && page >= first && page < first + n) ? page + 1 : 0);
	if (!dirty)
		ck_assert_uint_le(fx.store->writes, n);
	fx_check(&fx);
	fx_close(&fx);
}

START_TEST(clean_hot_pages_move)
{
	shrink_around_hot_pages(0, 0);
}
END_TEST

START_TEST(dirty_hot_pages_move_unwritten)
{
	shrink_around_hot_pages(0, 1);
}
END_TEST

START_TEST(hot_pages_move_although_cold_ones_are_dirty)
{
	shrink_around_hot_pages(1, 0);
	shrink_around_hot_pages(1, 1);
}
END_TEST

/* The pool is half empty: everything finds a place, whatever it is worth. */
START_TEST(nothing_is_dropped_while_there_is_room)
{
	struct fx fx;

	fx_open(&fx, CHUNKS, CHUNKS);
	for (uint64_t page = 0; page < ALL; page++)
		fx_put(fx.s, page, page + 1);
	for (uint64_t page = 0; page < ALL - KEPT; page++)
		FX_OK(tide_pool_drop(fx.s, 0, page, 1, &why));
	ck_assert_uint_eq(fx_status(&fx).cached_pages, KEPT);
	(void)fx_resize(fx.s, 2);
	ck_assert_uint_eq(fx_status(&fx).cached_pages, KEPT);
	ck_assert_uint_eq(fx_status(&fx).evictions, 0);
	ck_assert_uint_eq(fx.store->writes, 0);
	for (uint64_t page = ALL - KEPT; page < ALL; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Every page is worth the same: the pool is full after the shrink, not half empty. */
START_TEST(equal_pages_fill_what_is_left)
{
	struct fx fx;

	load(&fx, 0);
	for (uint64_t page = 0; page < KEPT / 2; page++)
		FX_OK(tide_pool_drop(fx.s, 0, page, 1, &why));
	(void)fx_resize(fx.s, 2);
	ck_assert_uint_ge(fx_status(&fx).cached_pages, KEPT - 4);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Which pages stay: no page that goes was hit much more often than one that stays. */
START_TEST(hottest_pages_stay)
{
	uint32_t hits[ALL] = {0}, kept = 0, best = 0, x = 1;
	uint32_t sorted[ALL];
	struct fx fx;

	load(&fx, 0);
	for (uint32_t i = 0; i < 40000; i++) {
		uint32_t page;

		x = x * 1664525 + 1013904223;
		/* Page k of a permutation is hit in proportion to 1 / (k + 1), about. */
		page = (uint32_t)(ALL / (1 + (x >> 8) % ALL)) * 37 % ALL;
		(void)fx_get(fx.s, page);
		hits[page]++;
	}
	(void)fx_resize(fx.s, 2);
	memcpy(sorted, hits, sizeof(hits));
	for (uint32_t i = 0; i < ALL; i++)
		for (uint32_t k = i + 1; k < ALL; k++)
			if (sorted[k] > sorted[i]) {
				const uint32_t swap = sorted[i];

				sorted[i] = sorted[k];
				sorted[k] = swap;
			}
	for (uint32_t i = 0; i < ALL; i++) {
		best += i < KEPT ? sorted[i] : 0;
		kept += fx_buffer(&fx, i) != TIDE_LOOKUP_NONE ? hits[i] : 0;
	}
	ck_assert_msg(kept >= best - best / 50, "kept %u of %u hits", kept, best);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* A limit on writing is kept by the moves, too. */
START_TEST(limit_on_writing)
{
	struct tide_progress progress;
	struct fx fx;

	load(&fx, 1);
	heat(&fx, ALL - 40, 40);
	progress = fx_request(fx.s, (struct tide_request){.target_bytes = 2 * FX_CHUNK,
							  .deadline_ns = 30000000,
							  .flush_bytes_per_s = FX_PAGE});
	ck_assert_int_eq(progress.state, TIDE_OP_PARTIAL);
	ck_assert_int_eq(progress.reason.code, TIDE_DIRTY_BACKLOG);
	ck_assert_uint_eq(progress.written_pages, fx.store->writes);
	ck_assert_uint_le(fx.store->writes, 4);
	for (uint64_t page = 0; page < ALL; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Pages that cannot be written keep the memory; nothing is lost, and it works when the disk does. */
START_TEST(pages_that_cannot_be_written)
{
	struct tide_progress progress;
	struct fx fx;

	load(&fx, 1);
	atomic_store(&fx.store->write_code, TIDE_IO_ERROR);
	progress = fx_request(
		fx.s, (struct tide_request){.target_bytes = 2 * FX_CHUNK, .deadline_ns = 50000000});
	ck_assert_int_ne(progress.state, TIDE_OP_DONE);
	ck_assert_int_ne(progress.reason.code, 0);
	fx_check(&fx);
	ck_assert_uint_eq(fx_status(&fx).dirty_pages, ALL);
	atomic_store(&fx.store->write_code, 0);
	(void)fx_resize(fx.s, 2);
	for (uint64_t page = 0; page < ALL; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Readers that go on all the time never see anything but their page. */
static _Atomic int enough;

static void act_read(struct fx_actor *actor)
{
	uint32_t x = 7 + (uint32_t)actor->page;

	while (!atomic_load(&enough)) {
		uint64_t page;

		x = x * 1664525 + 1013904223;
		page = (x >> 10) % ALL;
		if (x >> 9 & 1)
			ck_assert_uint_eq(fx_get(actor->s, page), page + 1);
		else {
			struct tide_fix fix = fx_fix(actor->s, page, TIDE_FIX_PIN);

			ck_assert_uint_eq(fx_version(fix.page, 0, page), page + 1);
			tide_pool_unfix(actor->s, &fix);
		}
	}
}

START_TEST(readers_never_notice)
{
	struct fx_actor actors[2] = {{.page = 1}, {.page = 2}};
	struct fx fx;
	uint32_t x = 3;

	load(&fx, 1);
	fx_start(&actors[0], &fx, act_read);
	fx_start(&actors[1], &fx, act_read);
	for (int i = 0; i < 60; i++) {
		x = x * 1664525 + 1013904223;
		(void)fx_resize(fx.s, 1 + (x >> 16) % CHUNKS);
	}
	atomic_store(&enough, 1);
	fx_join(&actors[0]);
	fx_join(&actors[1]);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(clean_hot_pages_move),
		FX_TEST(dirty_hot_pages_move_unwritten),
		FX_TEST(hot_pages_move_although_cold_ones_are_dirty),
		FX_TEST(nothing_is_dropped_while_there_is_room),
		FX_TEST(equal_pages_fill_what_is_left),
		FX_TEST(hottest_pages_stay),
		FX_TEST(limit_on_writing),
		FX_TEST(pages_that_cannot_be_written),
		FX_TEST(readers_never_notice),
	};

	return fx_run("pool-relocate", tests, sizeof(tests) / sizeof(tests[0]));
}
