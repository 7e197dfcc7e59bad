/* SPDX-License-Identifier: PostgreSQL */
/* Tests of reap.c: whoever dies at whatever point, the pool goes on and no page is lost. */
#include "pool_fixture.h"

#define START_CHUNKS 4u
#define MAX_CHUNKS 6u
#define PAGES 160u /* of the model: more than there are buffers */
#define NOBODY UINT64_MAX

/* What the pages should be; shared with the one who dies. */
struct model {
	_Atomic uint64_t newest[PAGES];
	_Atomic uint64_t writing; /* page that is fixed for writing, or about to be */
	_Atomic uint32_t dropping;
};

struct scene {
	struct fx fx;
	struct model *model;
	enum pool_pause at;
	uint32_t pass;
	void (*act)(struct scene *scene);
};

static void put(struct scene *scene, uint64_t page)
{
	struct tide_session *s = scene->fx.s;
	const uint64_t version = atomic_load(&scene->model->newest[page]) + 1;
	struct tide_fix fix;

	atomic_store(&scene->model->writing, page);
	fix = fx_fix(s, page, TIDE_FIX_WRITE);
	tide_pool_mark_dirty(s, &fix);
	fx_fill(fix.page, page / FX_PAGES, page % FX_PAGES, version);
	atomic_store(&scene->model->newest[page], version);
	tide_pool_unfix(s, &fix);
	atomic_store(&scene->model->writing, NOBODY);
}

/* --- what the one who dies is doing -------------------------------------------------------------- */

static void read_all(struct scene *scene)
{
	for (uint64_t page = 0; page < PAGES; page++)
		(void)fx_get(scene->fx.s, page);
}

static void pin_all(struct scene *scene)
{
	for (uint64_t page = 0; page < PAGES; page++) {
		struct tide_fix fix = fx_fix(scene->fx.s, page, TIDE_FIX_PIN);

		tide_pool_unfix(scene->fx.s, &fix);
	}
}

static void write_all(struct scene *scene)
{
	for (uint64_t page = 0; page < PAGES; page++)
		put(scene, page);
}

static void fetch_all(struct scene *scene)
{
	struct tide_page_id ids[PAGES];

	for (uint64_t page = 0; page < PAGES; page++)
		ids[page] = fx_id(page);
	(void)tide_pool_prefetch(scene->fx.s, ids, PAGES);
}

static void flush_all(struct scene *scene)
{
	ck_assert_int_eq(fx_flush(&scene->fx), 0);
}

static void drop_all(struct scene *scene)
{
	struct tide_reason why;

	atomic_store(&scene->model->dropping, 1);
	ck_assert_int_eq(tide_pool_drop(scene->fx.s, 0, 0, TIDE_ALL_PAGES, &why), 0);
}

static void shrink(struct scene *scene)
{
	(void)fx_resize(scene->fx.s, 1);
}

static void grow(struct scene *scene)
{
	(void)fx_resize(scene->fx.s, MAX_CHUNKS);
}

/* --- the scene ----------------------------------------------------------------------------------- */

static void act(struct fx *fx, void *argument)
{
	struct scene *scene = argument;

	scene->fx = *fx;
	fx_at(scene->at, scene->pass, fx_die);
	scene->act(scene);
}

static void set_up(struct scene *scene)
{
	fx_open(&scene->fx, MAX_CHUNKS, START_CHUNKS);
	scene->model = fx_shared(sizeof(*scene->model));
	atomic_store(&scene->model->writing, NOBODY);
	for (uint64_t page = 0; page < PAGES; page++)
		put(scene, page);
	ck_assert_int_eq(fx_flush(&scene->fx), 0);
	for (uint64_t page = 0; page < PAGES; page += 3)
		put(scene, page);
	/* Some are hot, so that a shrink has something to move. */
	for (uint64_t round = 0; round < 40; round++)
		for (uint64_t page = round % 2; page < PAGES; page += 7)
			(void)fx_get(scene->fx.s, page);
}

static void check_page(struct scene *scene, uint64_t page, uint64_t torn)
{
	const uint64_t newest = atomic_load(&scene->model->newest[page]);
	const uint64_t version = fx_get(scene->fx.s, page);

	if (page == torn || atomic_load(&scene->model->dropping))
		ck_assert_msg(version <= newest && version >= fx_stored(&scene->fx, page)->stored,
			      "page %" PRIu64 " has version %" PRIu64, page, version);
	else
		ck_assert_msg(version == newest,
			      "page %" PRIu64 " has version %" PRIu64 " and not %" PRIu64, page,
			      version, newest);
	atomic_store(&scene->model->newest[page], version);
}

static void check_sessions(struct fx *fx)
{
	struct tide_session *others[11];

	for (int i = 0; i < 11; i++)
		FX_OK(tide_session_open(fx->pool, &others[i], &why));
	for (int i = 0; i < 11; i++)
		tide_session_close(others[i]);
}

/* Everything works again, for everybody. */
static void check_after(struct scene *scene)
{
	const uint64_t torn = atomic_load(&scene->model->writing);
	struct fx *fx = &scene->fx;
	struct tide_pool_status status;

	for (uint64_t page = 0; page < PAGES; page++)
		check_page(scene, page, torn);
	(void)tide_pool_reap(fx->s);
	/* Whoever resizes next repairs what was left. */
	(void)fx_resize(fx->s, START_CHUNKS);
	fx_check(fx);
	status = fx_status(fx);
	ck_assert_uint_eq(status.allocatable_bytes, START_CHUNKS * FX_CHUNK);
	ck_assert_uint_eq(status.committed_bytes, START_CHUNKS * FX_CHUNK);
	ck_assert_uint_eq(status.sessions, 1);
	ck_assert_uint_ge(status.dead_sessions, 1);
	atomic_store(&scene->model->dropping, 0);
	write_all(scene);
	(void)fx_resize(fx->s, MAX_CHUNKS);
	for (uint64_t page = 0; page < PAGES; page++)
		check_page(scene, page, NOBODY);
	(void)fx_resize(fx->s, 1);
	ck_assert_int_eq(fx_flush(fx), 0);
	for (uint64_t page = 0; page < PAGES; page++)
		ck_assert_uint_eq(fx_stored(fx, page)->durable, scene->model->newest[page]);
	fx_check(fx);
	check_sessions(fx);
}

/* Return: 1 = it died, 0 = it came to its end before. */
static int play(enum pool_pause at, uint32_t pass, void (*doing)(struct scene *))
{
	struct scene scene = {.at = at, .pass = pass, .act = doing};
	int signal;

	set_up(&scene);
	signal = fx_reap_child(fx_fork(&scene.fx, act, &scene));
	if (signal != 0) {
		ck_assert_int_eq(signal, SIGKILL);
		if (pass % 2)
			ck_assert_uint_ge(tide_pool_reap(scene.fx.s), 1);
		check_after(&scene);
	}
	fx_close(&scene.fx);
	munmap(scene.model, sizeof(*scene.model));
	return signal != 0;
}

#ifdef __SANITIZE_THREAD__ /* slow */
#define LAST_PASS 8u
#else
#define LAST_PASS 100u
#endif

/* At the first pass, the next ones, and later ones in larger steps. */
static void play_all(enum pool_pause at, void (*doing)(struct scene *))
{
	uint32_t pass = 1;

	ck_assert_msg(play(at, pass, doing), "point %d is never passed", (int)at);
	while (pass < LAST_PASS && play(at, pass, doing))
		pass += 1 + pass / 2;
}

#define DEATH(name, point, doing)                    \
	START_TEST(name)                             \
	{                                            \
		play_all(POOL_PAUSE_##point, doing); \
	}                                            \
	END_TEST

DEATH(latched_writing, LATCHED, write_all)
DEATH(taken_reading, TAKEN, read_all)
DEATH(taken_writing, TAKEN, write_all)
DEATH(taken_prefetching, TAKEN, fetch_all)
DEATH(entered_reading, ENTERED, read_all)
DEATH(entered_writing, ENTERED, write_all)
DEATH(entered_prefetching, ENTERED, fetch_all)
DEATH(loaded_reading, LOADED, read_all)
DEATH(loaded_pinning, LOADED, pin_all)
DEATH(loaded_writing, LOADED, write_all)
DEATH(loaded_prefetching, LOADED, fetch_all)
DEATH(claimed_reading, CLAIMED, read_all)
DEATH(claimed_dropping, CLAIMED, drop_all)
DEATH(claimed_shrinking, CLAIMED, shrink)
DEATH(removed_reading, REMOVED, read_all)
DEATH(removed_writing, REMOVED, write_all)
DEATH(removed_dropping, REMOVED, drop_all)
DEATH(removed_shrinking, REMOVED, shrink)
DEATH(written_evicting, WRITTEN, write_all)
DEATH(written_flushing, WRITTEN, flush_all)
DEATH(written_shrinking, WRITTEN, shrink)
DEATH(copied_shrinking, COPIED, shrink)
DEATH(replaced_shrinking, REPLACED, shrink)
DEATH(drained_shrinking, DRAINED, shrink)
DEATH(arrays_growing, ARRAYS, grow)
DEATH(released_shrinking, RELEASED, shrink)

/* --- what comes between a death and its discovery ------------------------------------------------ */

/* The page is out of the table when its evictor dies; others read, change and evict it again. */
START_TEST(evicted_page_stays_evicted)
{
	struct scene scene = {.at = POOL_PAUSE_REMOVED, .pass = 1, .act = read_all};
	struct fx *fx = &scene.fx;
	uint64_t page = 0;

	fx_open(fx, MAX_CHUNKS, START_CHUNKS);
	scene.model = fx_shared(sizeof(*scene.model));
	for (uint64_t i = 0; i < START_CHUNKS * FX_CHUNK_BUFFERS; i++)
		put(&scene, i);
	ck_assert_int_eq(fx_flush(fx), 0);
	ck_assert_int_eq(fx_reap_child(fx_fork(fx, act, &scene)), SIGKILL);
	while (fx_buffer(fx, page) != TIDE_LOOKUP_NONE)
		page++;
	fx_put(fx->s, page, 77);
	ck_assert_int_eq(fx_flush(fx), 0);
	FX_OK(tide_pool_drop(fx->s, 0, page, 1, &why));
	ck_assert_uint_eq(fx_buffer(fx, page), TIDE_LOOKUP_NONE);
	ck_assert_uint_eq(tide_pool_reap(fx->s), 1);
	ck_assert_uint_eq(fx_get(fx->s, page), 77);
	fx_check(fx);
	fx_close(fx);
}
END_TEST

/* --- a page whose writer died --------------------------------------------------------------------- */

static void hold_page_zero(struct fx *fx, void *argument)
{
	struct tide_fix fix = fx_fix(fx->s, 0, TIDE_FIX_WRITE);

	(void)argument;
	tide_pool_mark_dirty(fx->s, &fix);
	memset(fix.page, 0xee, FX_PAGE / 2);
	fx_die();
}

START_TEST(torn_page_is_read_again)
{
	const enum tide_fix_mode modes[] = {TIDE_FIX_PIN, TIDE_FIX_READ, TIDE_FIX_WRITE,
					    TIDE_FIX_NEW};
	struct fx fx;

	fx_open(&fx, 2, 1);
	fx_put(fx.s, 0, 5);
	ck_assert_int_eq(fx_flush(&fx), 0);
	for (uint32_t i = 0; i < 4; i++) {
		struct tide_fix fix;

		ck_assert_int_eq(fx_reap_child(fx_fork(&fx, hold_page_zero, NULL)), SIGKILL);
		/* PIN asks for nobody's leave: it learns of the death when somebody has found out. */
		if (modes[i] == TIDE_FIX_PIN)
			ck_assert_uint_eq(tide_pool_reap(fx.s), 1);
		fix = fx_fix(fx.s, 0, modes[i]);
		ck_assert_uint_eq(fx_version(fix.page, 0, 0), modes[i] == TIDE_FIX_NEW ? 0 : 5);
		tide_pool_unfix(fx.s, &fix);
		ck_assert_uint_eq(fx_status(&fx).torn_pages, i + 1);
	}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* While another one has it fixed the page cannot go; it does when that one lets go. */
START_TEST(torn_page_waits_for_pins)
{
	struct fx fx;
	struct fx_actor actor = {.page = 0, .mode = TIDE_FIX_PIN};

	fx_open(&fx, 2, 1);
	fx_put(fx.s, 0, 5);
	ck_assert_int_eq(fx_flush(&fx), 0);
	fx_start(&actor, &fx, fx_act_fix);
	fx_await(&actor, 1);
	ck_assert_int_eq(fx_reap_child(fx_fork(&fx, hold_page_zero, NULL)), SIGKILL);
	ck_assert_int_eq(fx_refused(fx.s, 0, TIDE_FIX_READ), TIDE_PINNED_BUFFERS);
	fx_let(&actor, 1);
	fx_join(&actor);
	ck_assert_uint_eq(fx_get(fx.s, 0), 5);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* A torn page goes with the chunk, by eviction, and by a drop, too. */
START_TEST(torn_page_goes_by_other_ways)
{
	struct fx fx;

	fx_open(&fx, 3, 2);
	for (int way = 0; way < 3; way++) {
		fx_put(fx.s, 0, 5);
		ck_assert_int_eq(fx_flush(&fx), 0);
		ck_assert_int_eq(fx_reap_child(fx_fork(&fx, hold_page_zero, NULL)), SIGKILL);
		ck_assert_uint_eq(tide_pool_reap(fx.s), 1);
		ck_assert(fx_state(&fx, 0) & STATE_TORN);
		if (way == 0)
			FX_OK(tide_pool_drop(fx.s, 0, 0, 1, &why));
		else if (way == 1)
			for (uint64_t page = 1; page < 400; page++)
				(void)fx_get(fx.s, page);
		else
			(void)fx_resize(fx.s, 1), (void)fx_resize(fx.s, 2), fx_get(fx.s, 0);
		ck_assert(!(fx_state(&fx, 0) & STATE_TORN));
		ck_assert_uint_eq(fx_get(fx.s, 0), 5);
	}
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* --- waiting for one who dies --------------------------------------------------------------------- */

static void stop_at_point(struct fx *fx, void *argument)
{
	struct scene *scene = argument;

	scene->fx = *fx;
	fx_at(scene->at, scene->pass, fx_stop);
	scene->act(scene);
}

static void write_page_zero(struct scene *scene)
{
	put(scene, 0);
}

/* The owner is stopped, others come to wait for it, then it is killed. */
static void wait_for_dead(enum pool_pause at, void (*doing)(struct scene *),
			  enum tide_fix_mode mode, int resident)
{
	struct scene scene = {.at = at, .pass = 1, .act = doing};
	struct fx_actor actor = {.page = 0, .mode = mode};
	pid_t child;

	fx_open(&scene.fx, 2, 1);
	scene.model = fx_shared(sizeof(*scene.model));
	if (resident)
		(void)fx_get(scene.fx.s, 0);
	child = fx_fork(&scene.fx, stop_at_point, &scene);
	fx_wait_stopped(child);
	fx_start(&actor, &scene.fx, fx_act_fix);
	FX_UNTIL(fx_state(&scene.fx, 0) & STATE_WAIT);
	ck_assert_uint_eq(atomic_load(&actor.said), 0);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(fx_reap_child(child), SIGKILL);
	fx_await(&actor, 1);
	ck_assert_int_eq(actor.code, 0);
	fx_let(&actor, 1);
	fx_join(&actor);
	fx_check(&scene.fx);
	fx_close(&scene.fx);
}

START_TEST(waiters_of_a_dead_go_on)
{
	wait_for_dead(POOL_PAUSE_LATCHED, write_page_zero, TIDE_FIX_READ, 1);
	wait_for_dead(POOL_PAUSE_LATCHED, write_page_zero, TIDE_FIX_WRITE, 1);
	wait_for_dead(POOL_PAUSE_ENTERED, read_all, TIDE_FIX_PIN, 0);
	wait_for_dead(POOL_PAUSE_ENTERED, read_all, TIDE_FIX_NEW, 0);
	wait_for_dead(POOL_PAUSE_LOADED, read_all, TIDE_FIX_READ, 0);
	wait_for_dead(POOL_PAUSE_CLAIMED, drop_all, TIDE_FIX_READ, 1);
}
END_TEST

static void hold_reading(struct fx *fx, void *argument)
{
	(void)fx_fix(fx->s, 0, TIDE_FIX_READ);
	(void)argument;
	fx_stop();
	_exit(0);
}

/* A reader that ended without a word does not stop a writer. */
START_TEST(writer_goes_on_when_the_reader_died)
{
	struct fx fx;
	struct fx_actor actor = {.page = 0, .mode = TIDE_FIX_WRITE};
	pid_t child;

	fx_open(&fx, 2, 1);
	(void)fx_get(fx.s, 0);
	child = fx_fork(&fx, hold_reading, NULL);
	fx_wait_stopped(child);
	fx_start(&actor, &fx, fx_act_fix);
	FX_UNTIL(fx_state(&fx, 0) & STATE_X);
	ck_assert_uint_eq(atomic_load(&actor.said), 0);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(fx_reap_child(child), SIGKILL);
	fx_await(&actor, 1);
	fx_let(&actor, 1);
	fx_join(&actor);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static void leave_hints(struct fx *fx, void *argument)
{
	(void)argument;
	for (uint64_t page = 0; page < 40; page++)
		(void)fx_get(fx->s, page);
	ck_assert_uint_gt(fx->s->n_hints, 0);
	fx_die();
}

/* What a dead one had made free is found by others, without an eviction. */
START_TEST(hints_of_a_dead_are_for_everybody)
{
	struct fx fx;
	uint64_t evictions;
	uint32_t n_free;
	int64_t before;

	fx_open(&fx, 4, 4);
	for (uint64_t page = 0; page < 4 * FX_CHUNK_BUFFERS; page++)
		(void)fx_get(fx.s, 1000 + page);
	ck_assert_int_eq(fx_reap_child(fx_fork(&fx, leave_hints, NULL)), SIGKILL);
	before = atomic_load(&fx.pool->shared->n_free);
	ck_assert_uint_eq(tide_pool_reap(fx.s), 1);
	n_free = (uint32_t)atomic_load(&fx.pool->shared->n_free);
	ck_assert_int_gt(n_free, before);
	evictions = fx_status(&fx).evictions;
	for (uint64_t page = 0; page < n_free; page++)
		(void)fx_get(fx.s, 500 + page);
	ck_assert_uint_eq(fx_status(&fx).evictions, evictions);
	ck_assert_uint_eq(fx_status(&fx).misses, fx_status(&fx).read_pages);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(latched_writing),
		FX_TEST(taken_reading),
		FX_TEST(taken_writing),
		FX_TEST(taken_prefetching),
		FX_TEST(entered_reading),
		FX_TEST(entered_writing),
		FX_TEST(entered_prefetching),
		FX_TEST(loaded_reading),
		FX_TEST(loaded_pinning),
		FX_TEST(loaded_writing),
		FX_TEST(loaded_prefetching),
		FX_TEST(claimed_reading),
		FX_TEST(claimed_dropping),
		FX_TEST(claimed_shrinking),
		FX_TEST(removed_reading),
		FX_TEST(removed_writing),
		FX_TEST(removed_dropping),
		FX_TEST(removed_shrinking),
		FX_TEST(written_evicting),
		FX_TEST(written_flushing),
		FX_TEST(written_shrinking),
		FX_TEST(copied_shrinking),
		FX_TEST(replaced_shrinking),
		FX_TEST(drained_shrinking),
		FX_TEST(arrays_growing),
		FX_TEST(released_shrinking),
		FX_TEST(evicted_page_stays_evicted),
		FX_TEST(torn_page_is_read_again),
		FX_TEST(torn_page_waits_for_pins),
		FX_TEST(torn_page_goes_by_other_ways),
		FX_TEST(waiters_of_a_dead_go_on),
		FX_TEST(writer_goes_on_when_the_reader_died),
		FX_TEST(hints_of_a_dead_are_for_everybody),
	};

	return fx_run("pool-death", tests, sizeof(tests) / sizeof(tests[0]));
}
