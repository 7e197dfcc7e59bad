/* SPDX-License-Identifier: PostgreSQL */
/* Tests of drop.c: pages that nobody wants any more. */
#include "pool_fixture.h"

static int drop(struct fx *fx, uint64_t file, uint64_t first, uint64_t n)
{
	struct tide_reason why = {0};
	int code = tide_pool_drop(fx->s, file, first, n, &why);

	ck_assert_int_eq(why.code, code);
	return code;
}

static uint32_t count_cached(struct fx *fx, uint64_t first, uint64_t n)
{
	uint32_t cached = 0;

	for (uint64_t page = first; page < first + n; page++)
		cached += fx_buffer(fx, page) != TIDE_LOOKUP_NONE;
	return cached;
}

START_TEST(ranges_files_everything)
{
	struct fx fx;

	fx_open(&fx, 4, 4);
	for (uint64_t page = 0; page < 50; page++) {
		fx_put(fx.s, page, 1);
		(void)fx_get(fx.s, FX_PAGES + page);
	}
	ck_assert_int_eq(drop(&fx, 0, 10, 3), 0); /* by id */
	ck_assert_uint_eq(count_cached(&fx, 0, 50), 47);
	ck_assert_uint_eq(count_cached(&fx, 10, 3), 0);
	ck_assert_int_eq(drop(&fx, 0, 10, 20), 0); /* by a walk */
	ck_assert_uint_eq(count_cached(&fx, 0, 50), 30);
	ck_assert_uint_eq(count_cached(&fx, 10, 20), 0);
	ck_assert_uint_eq(count_cached(&fx, FX_PAGES, 50), 50);
	fx_check(&fx);
	ck_assert_int_eq(drop(&fx, 0, 40, TIDE_ALL_PAGES), 0);
	ck_assert_uint_eq(count_cached(&fx, 0, 50), 20);
	ck_assert_int_eq(drop(&fx, TIDE_ALL_FILES, 5, 2), 0);
	ck_assert_uint_eq(count_cached(&fx, 0, 50), 18);
	ck_assert_uint_eq(count_cached(&fx, FX_PAGES, 50), 48);
	ck_assert_int_eq(drop(&fx, 1, 0, TIDE_ALL_PAGES), 0);
	ck_assert_uint_eq(count_cached(&fx, FX_PAGES, 50), 0);
	ck_assert_int_eq(drop(&fx, TIDE_ALL_FILES, 0, TIDE_ALL_PAGES), 0);
	ck_assert_uint_eq(fx_status(&fx).cached_pages, 0);
	ck_assert_int_eq(drop(&fx, 0, 3, 0), 0);
	ck_assert_uint_eq(fx.store->writes, 0);
	for (uint64_t page = 0; page < 50; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), 0);
	ck_assert_uint_eq(fx_status(&fx).evictions, 0);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* As many as can be looked up one by one, and more than one batch of them. */
START_TEST(many_by_id)
{
	struct fx fx;

	fx_open(&fx, 20, 20);
	for (uint64_t page = 0; page < 100; page++)
		fx_put(fx.s, page, 1);
	ck_assert_int_eq(drop(&fx, 0, 5, 40), 0);
	ck_assert_uint_eq(count_cached(&fx, 0, 100), 60);
	ck_assert_uint_eq(count_cached(&fx, 5, 40), 0);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(fixed_pages_stay)
{
	struct tide_fix pin, read, write;
	struct fx fx;

	fx_open(&fx, 2, 2);
	for (uint64_t page = 0; page < 50; page++)
		fx_put(fx.s, page, page + 1);
	pin = fx_fix(fx.s, 1, TIDE_FIX_PIN);
	read = fx_fix(fx.s, 2, TIDE_FIX_READ);
	write = fx_fix(fx.s, 3, TIDE_FIX_WRITE);
	ck_assert_int_eq(drop(&fx, 0, 0, TIDE_ALL_PAGES), TIDE_PINNED_BUFFERS);
	ck_assert_uint_eq(count_cached(&fx, 0, 50), 3);
	ck_assert_int_eq(drop(&fx, 0, 1, 2), TIDE_PINNED_BUFFERS);
	ck_assert_uint_eq(fx_version(pin.page, 0, 1), 2);
	ck_assert_uint_eq(fx_version(read.page, 0, 2), 3);
	ck_assert_uint_eq(fx_version(write.page, 0, 3), 4);
	tide_pool_unfix(fx.s, &pin);
	tide_pool_unfix(fx.s, &read);
	tide_pool_unfix(fx.s, &write);
	ck_assert_uint_eq(fx_get(fx.s, 2), 3);
	ck_assert_int_eq(drop(&fx, 0, 0, TIDE_ALL_PAGES), 0);
	ck_assert_uint_eq(fx_get(fx.s, 2), 0);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static void act_drop(struct fx_actor *actor)
{
	struct tide_reason why;

	actor->code = tide_pool_drop(actor->s, 0, 0, TIDE_ALL_PAGES, &why);
}

/* A page that is let go of in time goes; one that is being loaded is waited for. */
START_TEST(busy_pages_are_waited_for)
{
	struct fx_actor dropper = {0}, reader = {.page = 9, .mode = TIDE_FIX_READ};
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, 2, 1);
	fix = fx_fix(fx.s, 1, TIDE_FIX_PIN);
	atomic_store(&fx.store->hold_reads, 1);
	fx_start(&reader, &fx, fx_act_fix);
	FX_UNTIL(atomic_load(&fx.store->held) == 1);
	fx_start(&dropper, &fx, act_drop);
	FX_UNTIL(atomic_load(&fx.pool->slots[2].scanning) || atomic_load(&dropper.done));
	ck_assert(!atomic_load(&dropper.done));
	atomic_store(&fx.store->hold_reads, 0);
	fx_await(&reader, 1);
	fx_let(&reader, 1);
	fx_join(&reader);
	tide_pool_unfix(fx.s, &fix);
	fx_join(&dropper);
	ck_assert_int_eq(dropper.code, 0);
	ck_assert_uint_eq(fx_status(&fx).cached_pages, 0);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static struct fx *stage;
static struct tide_session *other;
static uint64_t caught_page;

/* Buffers are claimed: whoever comes now finds the claim, whoever was there before is found. */
static void come_too_late(void)
{
	ck_assert(fx_state(stage, 3) & STATE_EVICT);
	ck_assert_uint_ne(fx_buffer(stage, 3), TIDE_LOOKUP_NONE);
}

START_TEST(claimed_page_goes)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	stage = &fx;
	fx_put(fx.s, 3, 1);
	fx_at(POOL_PAUSE_CLAIMED, 1, come_too_late);
	ck_assert_int_eq(drop(&fx, 0, 3, 1), 0);
	ck_assert_uint_eq(fx_points[POOL_PAUSE_CLAIMED].passes, 1);
	ck_assert_uint_eq(fx_buffer(&fx, 3), TIDE_LOOKUP_NONE);
	fx_close(&fx);
}
END_TEST

/*
 * A session noted its pin before the claim, and has not looked at the state yet: the claimer gives
 * the page back.
 */
static void note_a_pin(void)
{
	session_note(other, 0, entry_make(fx_buffer(stage, caught_page), TIDE_FIX_PIN));
}

static void pin_again(void)
{
	session_forget(other, 0);
}

START_TEST(page_pinned_between_claim_and_look_stays)
{
	struct fx fx;

	fx_open(&fx, 2, 1);
	FX_OK(tide_session_open(fx.pool, &other, &why));
	stage = &fx;
	caught_page = 3;
	fx_put(fx.s, 3, 1);
	fx_put(fx.s, 4, 1);
	fx_at(POOL_PAUSE_CLAIMED, 1, note_a_pin);
	ck_assert_int_eq(drop(&fx, 0, 3, 2), TIDE_PINNED_BUFFERS);
	ck_assert_uint_ne(fx_buffer(&fx, 3), TIDE_LOOKUP_NONE);
	ck_assert(state_is_open(fx_state(&fx, 3)));
	ck_assert_uint_eq(fx_buffer(&fx, 4), TIDE_LOOKUP_NONE);
	pin_again();
	ck_assert_uint_eq(fx_get(fx.s, 3), 1);
	tide_session_close(other);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(ranges_files_everything), FX_TEST(many_by_id),
		FX_TEST(fixed_pages_stay),	  FX_TEST(busy_pages_are_waited_for),
		FX_TEST(claimed_page_goes),	  FX_TEST(page_pinned_between_claim_and_look_stays),
	};

	return fx_run("pool-drop", tests, sizeof(tests) / sizeof(tests[0]));
}
