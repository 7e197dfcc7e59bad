/* SPDX-License-Identifier: PostgreSQL */
/* Tests of evict.c and claim.c: which pages go, and that they may. */
#include "pool_fixture.h"

START_TEST(dirty_pages_are_written_before_they_go)
{
	struct fx fx;

	fx_open(&fx, 2, 2);
	for (uint64_t round = 1; round <= 3; round++)
		for (uint64_t page = 0; page < 300; page++)
			fx_put(fx.s, page, round);
	for (uint64_t page = 0; page < 300; page++) {
		if (fx_buffer(&fx, page) == TIDE_LOOKUP_NONE)
			ck_assert_uint_eq(fx_stored(&fx, page)->stored, 3);
		ck_assert_uint_eq(fx_get(fx.s, page), 3);
	}
	ck_assert_uint_ge(fx_status(&fx).evictions, 3 * 300 - 64);
	ck_assert_uint_eq(fx_status(&fx).cached_pages + fx_status(&fx).evictions,
			  fx_status(&fx).misses);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Not one is evicted while a buffer is free, at the start and after a grow. */
START_TEST(capacity_is_used)
{
	struct fx fx;

	fx_open(&fx, 8, 2);
	for (uint64_t page = 0; page < 2 * FX_CHUNK_BUFFERS; page++)
		(void)fx_get(fx.s, page);
	ck_assert_uint_eq(fx_status(&fx).evictions, 0);
	ck_assert_uint_eq(fx_status(&fx).cached_pages, 2 * FX_CHUNK_BUFFERS);
	(void)fx_resize(fx.s, 8);
	for (uint64_t page = 0; page < 8 * FX_CHUNK_BUFFERS; page++)
		(void)fx_get(fx.s, page);
	ck_assert_uint_eq(fx_status(&fx).evictions, 0);
	ck_assert_uint_eq(fx_status(&fx).cached_pages, 8 * FX_CHUNK_BUFFERS);
	ck_assert_uint_eq(fx_status(&fx).misses, 8 * FX_CHUNK_BUFFERS);
	(void)fx_get(fx.s, 1000);
	ck_assert_uint_gt(fx_status(&fx).evictions, 0);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Buffers that another session made free, or that a resizer kept ready, are not lost to others. */
START_TEST(buffers_of_idle_sessions_are_used)
{
	struct tide_session *idle;
	struct fx fx;

	fx_open(&fx, 4, 4);
	FX_OK(tide_session_open(fx.pool, &idle, &why));
	for (uint64_t page = 0; page < 200; page++)
		(void)fx_get(idle, page);
	(void)fx_resize(idle, 1);
	(void)fx_resize(idle, 4);
	for (uint64_t page = 1000; page < 1000 + 4 * FX_CHUNK_BUFFERS; page++)
		(void)fx_get(fx.s, page);
	/* A turn of the hands finds what nobody takes. */
	for (uint64_t page = 1200; page < 1500; page++)
		(void)fx_get(fx.s, page);
	ck_assert_uint_ge(fx_status(&fx).cached_pages + idle->n_hints + fx.s->n_hints +
				  (uint64_t)atomic_load(&fx.pool->shared->n_free),
			  4 * FX_CHUNK_BUFFERS);
	tide_session_close(idle);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* All but one buffer are fixed: it is the one that goes, again and again, and free hints are found. */
START_TEST(fixed_pages_stay)
{
	struct tide_fix fixes[FX_CHUNK_BUFFERS - 1];
	struct fx fx;

	fx_open(&fx, 1, 1);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS - 1; i++)
		fixes[i] = fx_fix(fx.s, i, (enum tide_fix_mode)(i % 4));
	for (uint64_t page = 100; page < 400; page++)
		fx_put(fx.s, page, 1);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS - 1; i++) {
		ck_assert_uint_eq(fx_buffer(&fx, i), fixes[i].buffer);
		tide_pool_unfix(fx.s, &fixes[i]);
	}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static struct fx *stage;
static struct tide_session *other;
static uint32_t caught;

/* One of the claimed buffers is pinned by a session that has not looked at the state. */
static void pin_the_first(void)
{
	const struct slot *slot = stage->s->slot;

	for (uint32_t i = 0; i < SLOT_CLAIMS; i++) {
		const uint32_t claim = atomic_load(&slot->claim[i]);

		if (claim == 0)
			continue;
		caught = claim - 1;
		session_note(other, 0, entry_make(caught, TIDE_FIX_PIN));
		return;
	}
}

START_TEST(page_pinned_between_claim_and_look_is_given_back)
{
	struct tide_page_id id;
	struct fx fx;

	fx_open(&fx, 1, 1);
	FX_OK(tide_session_open(fx.pool, &other, &why));
	stage = &fx;
	for (uint64_t page = 0; page < FX_CHUNK_BUFFERS; page++)
		(void)fx_get(fx.s, page);
	fx_at(POOL_PAUSE_CLAIMED, 1, pin_the_first);
	(void)fx_get(fx.s, 100);
	id = descriptor_id(&fx.pool->descriptors[caught]);
	ck_assert_uint_eq(fx_buffer(&fx, id.page), caught);
	ck_assert(state_is_open(descriptor_state(&fx.pool->descriptors[caught])));
	for (uint64_t page = 101; page < 300; page++)
		(void)fx_get(fx.s, page);
	ck_assert_uint_eq(fx_buffer(&fx, id.page), caught);
	session_forget(other, 0);
	tide_session_close(other);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Every page is dirty and none can be written: an error, and everything is as before. */
START_TEST(dirty_pages_that_cannot_be_written)
{
	struct tide_reason why;
	struct tide_fix fix;
	uint64_t dirty;
	struct fx fx;

	fx_open(&fx, 2, 2);
	for (uint64_t page = 0; page < 64; page++)
		fx_put(fx.s, page, 1);
	atomic_store(&fx.store->write_code, TIDE_IO_ERROR);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(fx_try(fx.s, 1000, TIDE_FIX_READ, &fix, &why), TIDE_IO_ERROR);
		ck_assert_int_eq(why.code, TIDE_IO_ERROR);
	}
	dirty = fx_status(&fx).dirty_pages;
	ck_assert_uint_eq(dirty, 64);
	for (uint64_t page = 0; page < 64; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), 1);
	atomic_store(&fx.store->write_code, 0);
	for (uint64_t page = 0; page < 300; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page < 64);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Some can be written, or are clean: those serve, and the others stay. */
START_TEST(some_pages_cannot_be_written)
{
	struct fx fx;

	fx_open(&fx, 4, 4);
	for (uint64_t page = 0; page < 64; page++) {
		fx_put(fx.s, page, 1);
		atomic_store(&fx_stored(&fx, page)->write_code, TIDE_IO_ERROR);
	}
	for (uint64_t page = 64; page < 600; page++)
		(void)fx_get(fx.s, page);
	for (uint64_t page = 64; page < 300; page++)
		fx_put(fx.s, page, 2);
	for (uint64_t page = 0; page < 64; page++) {
		ck_assert_uint_eq(fx_get(fx.s, page), 1);
		atomic_store(&fx_stored(&fx, page)->write_code, 0);
	}
	ck_assert_int_eq(fx_flush(&fx), 0);
	for (uint64_t page = 0; page < 300; page++)
		ck_assert_uint_eq(fx_stored(&fx, page)->durable, page < 64 ? 1 : 2);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* What is used often stays during a scan; what was dropped and is wanted again stays longer. */
START_TEST(hot_pages_survive_a_scan)
{
	struct fx fx;
	uint64_t before;

	fx_open(&fx, 4, 4);
	for (int round = 0; round < 6; round++)
		for (uint64_t page = 0; page < 60; page++)
			(void)fx_get(fx.s, page);
	before = fx_status(&fx).misses;
	for (uint64_t page = 500; page < 900; page++) {
		(void)fx_get(fx.s, page);
		(void)fx_get(fx.s, page % 60);
	}
	ck_assert_uint_le(fx_status(&fx).misses - before, 400 + 6);
	before = fx_status(&fx).ghost_hits;
	for (uint64_t page = 780; page < 880; page++)
		(void)fx_get(fx.s, page);
	ck_assert_uint_gt(fx_status(&fx).ghost_hits, before);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(dirty_pages_are_written_before_they_go),
		FX_TEST(capacity_is_used),
		FX_TEST(buffers_of_idle_sessions_are_used),
		FX_TEST(fixed_pages_stay),
		FX_TEST(page_pinned_between_claim_and_look_is_given_back),
		FX_TEST(dirty_pages_that_cannot_be_written),
		FX_TEST(some_pages_cannot_be_written),
		FX_TEST(hot_pages_survive_a_scan),
	};

	return fx_run("pool-evict", tests, sizeof(tests) / sizeof(tests[0]));
}
