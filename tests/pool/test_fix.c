/* SPDX-License-Identifier: PostgreSQL */
/* Tests of fix.c, load.c, buffer.c, prefetch.c: having pages, and what errors leave behind. */
#include "pool_fixture.h"

START_TEST(requests_are_refused)
{
	const struct tide_page_id no_file = {TIDE_ALL_FILES, 1}, no_page = {1, TIDE_ALL_PAGES};
	struct tide_reason why;
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, 2, 1);
	ck_assert_int_eq(fx_refused(fx.s, 1, (enum tide_fix_mode)4), TIDE_BAD_REQUEST);
	ck_assert_int_eq(fx_refused(fx.s, 1, (enum tide_fix_mode) - 1), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_fix(fx.s, &no_file, TIDE_FIX_READ, &fix, &why),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_fix(fx.s, &no_page, TIDE_FIX_READ, &fix, &why),
			 TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_fix(fx.s, &no_page, TIDE_FIX_READ, &fix, NULL),
			 TIDE_BAD_REQUEST);
	ck_assert_uint_eq(fx_status(&fx).misses, 0);
	fx_close(&fx);
}
END_TEST

START_TEST(so_many_fixes_and_no_more)
{
	struct tide_fix fixes[TIDE_SESSION_FIXES];
	struct fx fx;

	fx_open(&fx, 4, 4);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < TIDE_SESSION_FIXES; i++)
			fixes[i] = fx_fix(fx.s, i / 2, TIDE_FIX_READ);
		ck_assert_int_eq(fx_refused(fx.s, 0, TIDE_FIX_PIN), TIDE_LIMIT_REACHED);
		tide_pool_unfix(fx.s, &fixes[17]);
		fixes[17] = fx_fix(fx.s, 99, TIDE_FIX_WRITE);
		ck_assert_int_eq(fx_refused(fx.s, 0, TIDE_FIX_PIN), TIDE_LIMIT_REACHED);
		for (uint32_t i = 0; i < TIDE_SESSION_FIXES; i++)
			tide_pool_unfix(fx.s, &fixes[i]);
	}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* What a session has fixed when it ends is let go of. */
START_TEST(end_of_a_session_lets_go)
{
	struct tide_session *other;
	struct fx fx;

	fx_open(&fx, 2, 1);
	FX_OK(tide_session_open(fx.pool, &other, &why));
	(void)fx_fix(other, 1, TIDE_FIX_PIN);
	(void)fx_fix(other, 2, TIDE_FIX_READ);
	(void)fx_fix(other, 3, TIDE_FIX_WRITE);
	(void)fx_fix(other, 4, TIDE_FIX_NEW);
	tide_session_close(other);
	tide_session_close(NULL);
	for (uint64_t page = 1; page <= 4; page++) {
		struct tide_fix fix = fx_fix(fx.s, page, TIDE_FIX_WRITE);

		tide_pool_unfix(fx.s, &fix);
	}
	ck_assert_uint_eq(fx_status(&fx).misses, 4);
	ck_assert_uint_eq(fx_status(&fx).hits, 4);
	ck_assert_uint_eq(fx_status(&fx).sessions, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(new_page_is_zeros_and_not_read)
{
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, 2, 1);
	atomic_store(&fx_stored(&fx, 3)->stored, 8);
	/* Fill every buffer with something, so that zeros do not come by themselves. */
	for (uint64_t page = 0; page < 64; page++)
		fx_put(fx.s, 100 + page, 9);
	fix = fx_fix(fx.s, 3, TIDE_FIX_NEW);
	for (uint32_t i = 0; i < FX_PAGE; i++)
		ck_assert_int_eq(((char *)fix.page)[i], 0);
	ck_assert_uint_eq(fx_stored(&fx, 3)->reads, 0);
	tide_pool_mark_dirty(fx.s, &fix);
	fx_fill(fix.page, 0, 3, 11);
	tide_pool_unfix(fx.s, &fix);
	/* One that is in the pool is as it is. */
	fix = fx_fix(fx.s, 3, TIDE_FIX_NEW);
	ck_assert_uint_eq(fx_version(fix.page, 0, 3), 11);
	tide_pool_unfix(fx.s, &fix);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(page_that_cannot_be_read_leaves_nothing)
{
	const int codes[] = {TIDE_IO_ERROR, TIDE_PAGE_CORRUPT};
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (int i = 0; i < 2; i++)
		for (int mode = TIDE_FIX_PIN; mode < TIDE_FIX_NEW; mode++) {
			const uint64_t page = (uint64_t)(10 * i + mode);

			atomic_store(&fx_stored(&fx, page)->read_code, codes[i]);
			for (int n = 0; n < 100; n++)
				ck_assert_int_eq(fx_refused(fx.s, page, (enum tide_fix_mode)mode),
						 codes[i]);
			ck_assert_uint_eq(fx_buffer(&fx, page), TIDE_LOOKUP_NONE);
			fx_check(&fx);
			atomic_store(&fx_stored(&fx, page)->read_code, 0);
			ck_assert_uint_eq(fx_get(fx.s, page), 0);
		}
	ck_assert_uint_eq(fx_status(&fx).evictions, 0);
	ck_assert_uint_eq(fx_status(&fx).read_pages, 6);
	fx_close(&fx);
}
END_TEST

/* --- several sessions and one page ---------------------------------------------------------------- */

static void meet_loader(struct fx *fx, int code)
{
	struct fx_actor first = {.page = 5, .mode = TIDE_FIX_READ};
	struct fx_actor second = {.page = 5, .mode = TIDE_FIX_PIN};

	atomic_store(&fx->store->hold_reads, 1);
	fx_start(&first, fx, fx_act_fix);
	FX_UNTIL(atomic_load(&fx->store->held) == 1);
	fx_start(&second, fx, fx_act_fix);
	FX_UNTIL(fx_state(fx, 5) & STATE_WAIT);
	ck_assert_uint_eq(atomic_load(&second.said), 0);
	atomic_store(&fx_stored(fx, 5)->read_code, code);
	atomic_store(&fx->store->hold_reads, 0);
	fx_await(&first, 1);
	fx_await(&second, 1);
	/* A waiter whose loader failed tries for itself. */
	ck_assert_int_eq(first.code, code);
	ck_assert_int_eq(second.code, code);
	fx_let(&first, 1);
	fx_let(&second, 1);
	fx_join(&first);
	fx_join(&second);
	fx_check(fx);
}

START_TEST(waiting_for_a_loader)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	meet_loader(&fx, TIDE_IO_ERROR);
	ck_assert_uint_eq(fx_status(&fx).misses, 2);
	meet_loader(&fx, 0);
	ck_assert_uint_eq(fx_status(&fx).misses, 3);
	ck_assert_uint_eq(fx_status(&fx).hits, 1);
	ck_assert_uint_eq(fx_stored(&fx, 5)->reads, 1);
	fx_close(&fx);
}
END_TEST

static struct fx *stage;
static struct fx_actor *rival;

/* Another session has loaded the page when ours has a buffer for it. */
static void load_first(void)
{
	fx_at(POOL_PAUSE_TAKEN, 0, NULL);
	fx_start(rival, stage, fx_act_fix);
	fx_await(rival, 1);
	fx_let(rival, 1);
	fx_join(rival);
}

START_TEST(page_comes_from_elsewhere_meanwhile)
{
	struct fx_actor actor = {.page = 5, .mode = TIDE_FIX_READ};
	struct fx fx;

	fx_open(&fx, 2, 1);
	stage = &fx;
	rival = &actor;
	fx_at(POOL_PAUSE_TAKEN, 1, load_first);
	(void)fx_get(fx.s, 5);
	ck_assert_int_eq(actor.code, 0);
	ck_assert_uint_eq(fx_stored(&fx, 5)->reads, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* --- no buffer ------------------------------------------------------------------------------------ */

START_TEST(every_buffer_fixed)
{
	struct tide_fix fixes[FX_CHUNK_BUFFERS];
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS; i++)
		fixes[i] = fx_fix(fx.s, i, (enum tide_fix_mode)(i % 4));
	ck_assert_int_eq(fx_refused(fx.s, 100, TIDE_FIX_READ), TIDE_POOL_EXHAUSTED);
	tide_pool_unfix(fx.s, &fixes[20]);
	ck_assert_uint_eq(fx_get(fx.s, 100), 0);
	ck_assert_uint_eq(fx_buffer(&fx, 20), TIDE_LOOKUP_NONE);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS; i++) {
		if (i == 20)
			continue;
		ck_assert_uint_eq(fx_buffer(&fx, i), fixes[i].buffer);
		tide_pool_unfix(fx.s, &fixes[i]);
	}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Patience: a fix that is let go of meanwhile serves. */
static void act_exhaust(struct fx_actor *actor)
{
	struct tide_fix fixes[FX_CHUNK_BUFFERS];

	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS; i++)
		fixes[i] = fx_fix(actor->s, i, TIDE_FIX_PIN);
	fx_say(actor, 1);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS; i++)
		tide_pool_unfix(actor->s, &fixes[i]);
}

static void act_get(struct fx_actor *actor)
{
	fx_say(actor, 1);
	(void)fx_get(actor->s, actor->page);
}

START_TEST(buffer_is_waited_for)
{
	struct fx_actor holder = {0}, getter = {.page = 200};
	struct fx fx;

	fx_open(&fx, 2, 1);
	fx_start(&holder, &fx, act_exhaust);
	fx_await(&holder, 1);
	fx_start(&getter, &fx, act_get);
	fx_await(&getter, 1);
	fx_let(&getter, 1);
	fx_let(&holder, 1);
	fx_join(&holder);
	fx_join(&getter);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static void die_exhausting(struct fx *fx, void *argument)
{
	(void)argument;
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS; i++)
		(void)fx_fix(fx->s, i, TIDE_FIX_READ);
	fx_die();
}

START_TEST(buffers_of_a_dead_are_found)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	ck_assert_int_eq(fx_reap_child(fx_fork(&fx, die_exhausting, NULL)), SIGKILL);
	ck_assert_uint_eq(fx_get(fx.s, 200), 0);
	ck_assert_uint_eq(fx_status(&fx).dead_sessions, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* --- prefetch ------------------------------------------------------------------------------------- */

START_TEST(prefetch_loads_what_is_missing)
{
	struct tide_page_id ids[50];
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, 2, 2);
	for (uint32_t i = 0; i < 50; i++)
		ids[i] = fx_id(i == 49 ? 7 : i); /* one comes twice */
	(void)fx_get(fx.s, 3);
	atomic_store(&fx_stored(&fx, 20)->read_code, TIDE_IO_ERROR);
	ck_assert_uint_eq(tide_pool_prefetch(fx.s, ids, 50), 47);
	ck_assert_uint_eq(tide_pool_prefetch(fx.s, ids, 50), 0);
	ck_assert_uint_eq(tide_pool_prefetch(fx.s, ids, 0), 0);
	ck_assert_uint_eq(fx_buffer(&fx, 20), TIDE_LOOKUP_NONE);
	for (uint64_t page = 0; page < 49; page++) {
		if (page == 20)
			continue;
		fix = fx_fix(fx.s, page, TIDE_FIX_READ);
		tide_pool_unfix(fx.s, &fix);
		ck_assert_uint_eq(fx_stored(&fx, page)->reads, 1);
	}
	ck_assert_uint_eq(fx_status(&fx).hits, 48);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(prefetch_without_buffers_gives_up)
{
	struct tide_fix fixes[FX_CHUNK_BUFFERS];
	struct tide_page_id ids[8];
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (uint32_t i = 0; i < 8; i++)
		ids[i] = fx_id(100 + i);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS - 3; i++)
		fixes[i] = fx_fix(fx.s, i, TIDE_FIX_PIN);
	ck_assert_uint_eq(tide_pool_prefetch(fx.s, ids, 8), 3);
	for (uint32_t i = 0; i < FX_CHUNK_BUFFERS - 3; i++)
		tide_pool_unfix(fx.s, &fixes[i]);
	ck_assert_uint_eq(tide_pool_prefetch(fx.s, ids, 8), 5);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(sessions_are_limited)
{
	struct tide_session *others[11], *more = (struct tide_session *)&more;
	struct tide_reason reason;
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (int i = 0; i < 11; i++)
		FX_OK(tide_session_open(fx.pool, &others[i], &why));
	ck_assert_int_eq(tide_session_open(fx.pool, &more, &reason), TIDE_LIMIT_REACHED);
	ck_assert_ptr_null(more);
	ck_assert_int_ne(reason.hint[0], 0);
	tide_session_close(others[5]);
	FX_OK(tide_session_open(fx.pool, &others[5], &why));
	for (int i = 0; i < 11; i++)
		tide_session_close(others[i]);
	ck_assert_int_eq(tide_session_open(NULL, &more, &reason), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_session_open(fx.pool, NULL, &reason), TIDE_BAD_REQUEST);
	fx_close(&fx);
}
END_TEST

static void die_at_once(struct fx *fx, void *argument)
{
	(void)fx;
	(void)argument;
	fx_die();
}

/* A place that a dead one holds is taken over when there is no other. */
START_TEST(places_of_dead_sessions_are_taken_over)
{
	struct tide_session *others[11];
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (int i = 0; i < 11; i++)
		ck_assert_int_eq(fx_reap_child(fx_fork(&fx, die_at_once, NULL)), SIGKILL);
	for (int i = 0; i < 11; i++)
		FX_OK(tide_session_open(fx.pool, &others[i], &why));
	ck_assert_uint_eq(fx_status(&fx).dead_sessions, 11);
	for (int i = 0; i < 11; i++)
		tide_session_close(others[i]);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(requests_are_refused),
		FX_TEST(so_many_fixes_and_no_more),
		FX_TEST(end_of_a_session_lets_go),
		FX_TEST(new_page_is_zeros_and_not_read),
		FX_TEST(page_that_cannot_be_read_leaves_nothing),
		FX_TEST(waiting_for_a_loader),
		FX_TEST(page_comes_from_elsewhere_meanwhile),
		FX_TEST(every_buffer_fixed),
		FX_TEST(buffer_is_waited_for),
		FX_TEST(buffers_of_a_dead_are_found),
		FX_TEST(prefetch_loads_what_is_missing),
		FX_TEST(prefetch_without_buffers_gives_up),
		FX_TEST(sessions_are_limited),
		FX_TEST(places_of_dead_sessions_are_taken_over),
	};

	return fx_run("pool-fix", tests, sizeof(tests) / sizeof(tests[0]));
}
