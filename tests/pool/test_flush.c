/* SPDX-License-Identifier: PostgreSQL */
/* Tests of flush.c and write.c: what is durable, and when; what a failure leaves. */
#include "pool_fixture.h"

static void check_durable(struct fx *fx, uint64_t first, uint64_t n, uint64_t version)
{
	for (uint64_t page = first; page < first + n; page++)
		ck_assert_uint_eq(atomic_load(&fx_stored(fx, page)->durable), version);
}

static void put_some(struct fx *fx, uint64_t first, uint64_t n, uint64_t version)
{
	for (uint64_t page = first; page < first + n; page++)
		fx_put(fx->s, page, version);
}

static int flush_range(struct fx *fx, uint64_t file, uint64_t first, uint64_t n)
{
	struct tide_reason why = {0};

	return tide_pool_flush(fx->s, file, first, n, &why);
}

START_TEST(flush_of_everything)
{
	struct fx fx;

	fx_open(&fx, 4, 4);
	put_some(&fx, 10, 50, 1);
	put_some(&fx, FX_PAGES + 5, 20, 1);
	ck_assert_uint_eq(fx_status(&fx).dirty_pages, 70);
	ck_assert_int_eq(fx_flush(&fx), 0);
	check_durable(&fx, 10, 50, 1);
	check_durable(&fx, FX_PAGES + 5, 20, 1);
	ck_assert_uint_eq(fx_status(&fx).dirty_pages, 0);
	ck_assert_uint_eq(fx.store->writes, 70);
	ck_assert_uint_eq(fx_status(&fx).written_pages, 70);
	ck_assert_uint_eq(fx.store->syncs, 2);
	/* Nothing is dirty and nothing unsynced. */
	ck_assert_int_eq(fx_flush(&fx), 0);
	ck_assert_uint_eq(fx.store->writes, 70);
	ck_assert_uint_eq(fx.store->syncs, 2);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* By id and by a walk: the pages asked for, and no others. */
START_TEST(flush_of_some_pages)
{
	const uint64_t counts[] = {1, 3, 8, 60, 10000, TIDE_ALL_PAGES};
	struct fx fx;

	fx_open(&fx, 4, 4);
	for (uint32_t i = 0; i < 6; i++) {
		const uint64_t n = counts[i] < 60 ? counts[i] : 60;
		const uint64_t before = fx.store->writes;

		put_some(&fx, 0, 80, i + 1);
		put_some(&fx, FX_PAGES + 20, 5, i + 1);
		ck_assert_int_eq(flush_range(&fx, 0, 20, counts[i]), 0);
		check_durable(&fx, 20, n, i + 1);
		ck_assert_uint_eq(fx.store->writes - before, n);
		ck_assert(fx_state(&fx, 19) & STATE_DIRTY);
		ck_assert(fx_state(&fx, FX_PAGES + 20) & STATE_DIRTY);
	}
	/* Pages that are not in the pool, and none at all. */
	ck_assert_int_eq(flush_range(&fx, 0, 1000, 2), 0);
	ck_assert_int_eq(flush_range(&fx, 0, 19, 0), 0);
	ck_assert_int_eq(flush_range(&fx, TIDE_ALL_FILES, 20, 1), 0);
	check_durable(&fx, FX_PAGES + 20, 1, 6);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(own_writing_fix_is_refused)
{
	struct tide_fix fix, pin;
	struct fx fx;

	fx_open(&fx, 2, 1);
	put_some(&fx, 3, 2, 1);
	fix = fx_fix(fx.s, 3, TIDE_FIX_WRITE);
	pin = fx_fix(fx.s, 4, TIDE_FIX_PIN);
	ck_assert_int_eq(fx_flush(&fx), TIDE_BAD_REQUEST);
	ck_assert_int_eq(flush_range(&fx, 0, 3, 1), TIDE_BAD_REQUEST);
	ck_assert_int_eq(flush_range(&fx, 0, 4, 1), 0);
	check_durable(&fx, 4, 1, 1);
	tide_pool_unfix(fx.s, &fix);
	fix = fx_fix(fx.s, 3, TIDE_FIX_READ);
	ck_assert_int_eq(fx_flush(&fx), 0);
	check_durable(&fx, 3, 1, 1);
	tide_pool_unfix(fx.s, &fix);
	tide_pool_unfix(fx.s, &pin);
	fx_close(&fx);
}
END_TEST

START_TEST(failed_write_stays_dirty)
{
	struct fx fx;

	fx_open(&fx, 4, 4);
	for (int few = 0; few < 2; few++) {
		const uint64_t n = few ? 5 : 70;

		put_some(&fx, 0, n, (uint64_t)few + 1);
		atomic_store(&fx_stored(&fx, 2)->write_code, TIDE_IO_ERROR);
		ck_assert_int_eq(flush_range(&fx, 0, 0, n), TIDE_IO_ERROR);
		ck_assert(fx_state(&fx, 2) & STATE_DIRTY);
		ck_assert_uint_eq(fx_status(&fx).dirty_pages, 1);
		/* The others were written, and synced. */
		check_durable(&fx, 3, n - 3, (uint64_t)few + 1);
		ck_assert_uint_eq(atomic_load(&fx_stored(&fx, 2)->durable), (uint64_t)few);
		ck_assert_int_eq(flush_range(&fx, 0, 0, n), TIDE_IO_ERROR);
		atomic_store(&fx_stored(&fx, 2)->write_code, 0);
		ck_assert_int_eq(flush_range(&fx, 0, 0, n), 0);
		check_durable(&fx, 0, n, (uint64_t)few + 1);
	}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(failed_sync_is_repeated)
{
	struct fx fx;

	fx_open(&fx, 2, 2);
	put_some(&fx, 0, 5, 1);
	put_some(&fx, FX_PAGES, 5, 1);
	atomic_store(&fx.store->sync_code, TIDE_IO_ERROR);
	ck_assert_int_eq(fx_flush(&fx), TIDE_IO_ERROR);
	ck_assert_uint_eq(fx.store->syncs, 2);
	check_durable(&fx, 0, 5, 0);
	ck_assert_int_eq(flush_range(&fx, 0, 0, TIDE_ALL_PAGES), TIDE_IO_ERROR);
	atomic_store(&fx.store->sync_code, 0);
	/* Nothing is dirty, but both files wait for their sync. */
	ck_assert_int_eq(fx_flush(&fx), 0);
	check_durable(&fx, 0, 5, 1);
	check_durable(&fx, FX_PAGES, 5, 1);
	ck_assert_uint_eq(fx.store->writes, 10);
	ck_assert_uint_eq(fx.store->syncs, 5);
	fx_close(&fx);
}
END_TEST

/* Pages that were written because their buffers were needed are covered, too. */
START_TEST(evicted_pages_are_synced)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	put_some(&fx, 0, 200, 4);
	ck_assert_uint_gt(fx.store->writes, 0);
	ck_assert_uint_eq(fx.store->syncs, 0);
	ck_assert_int_eq(fx_flush(&fx), 0);
	check_durable(&fx, 0, 200, 4);
	put_some(&fx, 0, 200, 5);
	ck_assert_int_eq(flush_range(&fx, 0, 0, TIDE_ALL_PAGES), 0);
	check_durable(&fx, 0, 200, 5);
	ck_assert_uint_eq(fx.store->syncs, 2);
	ck_assert_int_eq(fx_flush(&fx), 0);
	ck_assert_uint_eq(fx.store->syncs, 2);
	fx_close(&fx);
}
END_TEST

/* A file without a place among those to be synced is synced at once; a failure of that is told. */
START_TEST(too_many_files_to_remember)
{
	struct unsynced *unsynced;
	struct fx fx;

	fx_open(&fx, 2, 1);
	unsynced = &fx.pool->shared->unsynced;
	for (uint64_t file = 0; file < UNSYNCED_FILES; file++)
		ck_assert_int_eq(unsynced_note(unsynced, 1000 + file), 1);
	put_some(&fx, 0, 3, 1);
	atomic_store(&fx.store->sync_code, TIDE_IO_ERROR);
	ck_assert_int_eq(flush_range(&fx, 0, 0, TIDE_ALL_PAGES), TIDE_IO_ERROR);
	ck_assert_int_eq(flush_range(&fx, 0, 0, 2), TIDE_IO_ERROR);
	ck_assert_uint_eq(fx_status(&fx).dirty_pages, 3);
	atomic_store(&fx.store->sync_code, 0);
	/* Only that of the first page: the one at the end does not make up for it. */
	atomic_store(&fx.store->failing_syncs, 1);
	ck_assert_int_eq(flush_range(&fx, 0, 0, TIDE_ALL_PAGES), TIDE_IO_ERROR);
	ck_assert_uint_eq(fx_status(&fx).dirty_pages, 1);
	put_some(&fx, 0, 3, 1);
	fx.store->syncs = 0;
	ck_assert_int_eq(flush_range(&fx, 0, 0, TIDE_ALL_PAGES), 0);
	ck_assert_uint_eq(fx.store->syncs, 4);
	ck_assert_uint_eq(fx_status(&fx).dirty_pages, 0);
	check_durable(&fx, 0, 3, 1);
	fx_close(&fx);
}
END_TEST

/* --- others at the same time ---------------------------------------------------------------------- */

static void act_flush(struct fx_actor *actor)
{
	struct tide_reason why;

	actor->code = tide_pool_flush(actor->s, TIDE_ALL_FILES, 0, TIDE_ALL_PAGES, &why);
}

START_TEST(flush_waits_for_a_writer)
{
	struct fx_actor flusher = {0};
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, 2, 1);
	put_some(&fx, 0, 3, 1);
	fix = fx_fix(fx.s, 1, TIDE_FIX_WRITE);
	fx_fill(fix.page, 0, 1, 2);
	fx_start(&flusher, &fx, act_flush);
	FX_UNTIL(fx_state(&fx, 1) & STATE_WAIT);
	ck_assert(!atomic_load(&flusher.done));
	tide_pool_unfix(fx.s, &fix);
	fx_join(&flusher);
	ck_assert_int_eq(flusher.code, 0);
	check_durable(&fx, 1, 1, 2);
	fx_close(&fx);
}
END_TEST

/* Two flushes: the one that finds nothing dirty any more still waits for a sync of its own. */
START_TEST(two_flushes_rely_on_nobody)
{
	struct fx_actor flusher = {0};
	struct fx fx;

	fx_open(&fx, 2, 1);
	put_some(&fx, 0, 3, 1);
	atomic_store(&fx.store->hold_syncs, 1);
	fx_start(&flusher, &fx, act_flush);
	FX_UNTIL(atomic_load(&fx.store->held) == 1);
	atomic_store(&fx.store->hold_syncs, 0);
	ck_assert_int_eq(fx_flush(&fx), 0);
	check_durable(&fx, 0, 3, 1);
	fx_join(&flusher);
	ck_assert_int_eq(flusher.code, 0);
	fx_close(&fx);
}
END_TEST

/* While a page is written nobody changes it; what comes then stays dirty. */
START_TEST(page_is_not_changed_while_it_is_written)
{
	struct fx_actor flusher = {0}, writer = {.page = 0, .mode = TIDE_FIX_WRITE};
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, 2, 1);
	put_some(&fx, 0, 1, 1);
	atomic_store(&fx.store->hold_writes, 1);
	fx_start(&flusher, &fx, act_flush);
	FX_UNTIL(atomic_load(&fx.store->held) == 1);
	fix = fx_fix(fx.s, 0, TIDE_FIX_READ); /* reading goes on */
	ck_assert_uint_eq(fx_version(fix.page, 0, 0), 1);
	tide_pool_unfix(fx.s, &fix);
	fx_start(&writer, &fx, fx_act_fix);
	FX_UNTIL(fx_state(&fx, 0) & STATE_X);
	ck_assert_uint_eq(atomic_load(&writer.said), 0);
	atomic_store(&fx.store->hold_writes, 0);
	fx_await(&writer, 1);
	fx_join(&flusher);
	tide_pool_mark_dirty(writer.s, &writer.fix);
	fx_fill(writer.fix.page, 0, 0, 2);
	fx_let(&writer, 1);
	fx_join(&writer);
	check_durable(&fx, 0, 1, 1);
	ck_assert(fx_state(&fx, 0) & STATE_DIRTY);
	ck_assert_int_eq(fx_flush(&fx), 0);
	check_durable(&fx, 0, 1, 2);
	fx_close(&fx);
}
END_TEST

static _Atomic int enough;

static void act_change_all_the_time(struct fx_actor *actor)
{
	uint64_t version = 2;

	while (!atomic_load(&enough)) {
		fx_put(actor->s, 0, version++);
		fx_put(actor->s, 1, version++);
		atomic_store(&actor->said, 1);
	}
}

/* A flush ends although the pages are dirty again at once. */
START_TEST(flush_ends_while_others_write)
{
	struct fx_actor writer = {0};
	struct fx fx;

	fx_open(&fx, 2, 1);
	put_some(&fx, 0, 2, 1);
	fx_start(&writer, &fx, act_change_all_the_time);
	fx_await(&writer, 1);
	for (uint64_t i = 0; i < 50; i++) {
		const uint64_t before = fx.store->writes;

		ck_assert_int_eq(i % 2 ? fx_flush(&fx) : flush_range(&fx, 0, 0, 2), 0);
		ck_assert_uint_le(fx.store->writes - before, 2);
	}
	atomic_store(&enough, 1);
	fx_join(&writer);
	fx_close(&fx);
}
END_TEST

static _Atomic int moving;

static void wait_in_a_move(void)
{
	atomic_store(&moving, 1);
	FX_UNTIL(atomic_load(&moving) == 2);
}

static void act_shrink(struct fx_actor *actor)
{
	(void)fx_resize(actor->s, 1);
}

static void act_flush_few(struct fx_actor *actor)
{
	struct tide_reason why;

	for (uint64_t page = 100; page < 120 && actor->code == 0; page++)
		actor->code = tide_pool_flush(actor->s, 0, page, 1, &why);
	for (uint64_t page = 0; page < 20 && actor->code == 0; page++)
		actor->code = tide_pool_flush(actor->s, 0, page, 1, &why);
}

/* On a buffer that somebody owns. */
static int somebody_sleeps(struct fx *fx)
{
	for (uint32_t b = 0; b < 4 * FX_CHUNK_BUFFERS; b++)
		if (descriptor_state(&fx->pool->descriptors[b]) & STATE_WAIT)
			return 1;
	return 0;
}

/* The page moves behind the walk's back: the walk waits for the move to end. */
static void flush_during_a_move(enum pool_pause at, int few)
{
	struct fx_actor resizer = {0}, flusher = {0};
	struct fx fx;

	fx_open(&fx, 4, 4);
	put_some(&fx, 0, 20, 1);
	for (uint64_t page = 20; page < 100; page++)
		(void)fx_get(fx.s, page);
	put_some(&fx, 100, 20, 1); /* in a chunk that goes */
	for (int i = 0; i < 20; i++)
		for (uint64_t page = 100; page < 120; page++)
			(void)fx_get(fx.s, page);
	atomic_store(&moving, 0);
	fx_at(at, 1, wait_in_a_move);
	fx_start(&resizer, &fx, act_shrink);
	FX_UNTIL(atomic_load(&moving) == 1);
	fx_start(&flusher, &fx, few ? act_flush_few : act_flush);
	FX_UNTIL(somebody_sleeps(&fx));
	ck_assert(!atomic_load(&flusher.done));
	atomic_store(&moving, 2);
	fx_join(&flusher);
	ck_assert_int_eq(flusher.code, 0);
	check_durable(&fx, 0, 20, 1);
	check_durable(&fx, 100, 20, 1);
	fx_join(&resizer);
	fx_check(&fx);
	fx_close(&fx);
}

START_TEST(page_that_moves_is_not_missed)
{
	flush_during_a_move(POOL_PAUSE_COPIED, 0);
	flush_during_a_move(POOL_PAUSE_REPLACED, 0);
	flush_during_a_move(POOL_PAUSE_COPIED, 1);
}
END_TEST

/* While somebody scans nothing moves, and the resize goes on afterwards. */
START_TEST(nothing_moves_during_a_scan)
{
	struct fx_actor resizer = {0}, flusher = {0};
	struct fx fx;

	fx_open(&fx, 4, 4);
	for (uint64_t page = 0; page < 100; page++)
		(void)fx_get(fx.s, page);
	put_some(&fx, 100, 20, 1);
	/* Pages worth keeping in two chunks, pages that are held in a third one: one can go at most. */
	for (int i = 0; i < 60; i++)
		for (uint64_t page = 0; page < 8; page++) {
			(void)fx_get(fx.s, FX_CHUNK_BUFFERS + page);
			(void)fx_get(fx.s, 2 * FX_CHUNK_BUFFERS + page);
		}
	atomic_store(&fx.store->hold_writes, 1);
	fx_start(&flusher, &fx, act_flush);
	FX_UNTIL(atomic_load(&fx.store->held) == 1);
	fx_start(&resizer, &fx, act_shrink);
	FX_UNTIL(fx_status(&fx).chunks[TIDE_CHUNK_DRAINING] > 0);
	for (int i = 0; i < 300; i++)
		ck_assert_uint_eq(fx_status(&fx).relocated_pages, 0);
	atomic_store(&fx.store->hold_writes, 0);
	fx_join(&flusher);
	fx_join(&resizer);
	ck_assert_uint_ge(fx_status(&fx).relocated_pages, 8);
	check_durable(&fx, 100, 20, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(flush_of_everything),
		FX_TEST(flush_of_some_pages),
		FX_TEST(own_writing_fix_is_refused),
		FX_TEST(failed_write_stays_dirty),
		FX_TEST(failed_sync_is_repeated),
		FX_TEST(evicted_pages_are_synced),
		FX_TEST(too_many_files_to_remember),
		FX_TEST(flush_waits_for_a_writer),
		FX_TEST(two_flushes_rely_on_nobody),
		FX_TEST(page_is_not_changed_while_it_is_written),
		FX_TEST(flush_ends_while_others_write),
		FX_TEST(page_that_moves_is_not_missed),
		FX_TEST(nothing_moves_during_a_scan),
	};

	return fx_run("pool-flush", tests, sizeof(tests) / sizeof(tests[0]));
}
