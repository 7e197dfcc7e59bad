/* SPDX-License-Identifier: PostgreSQL */
/* Tests of host.c and resizer.c: every size, what stands in the way, and who is named for it. */
#include "pool_fixture.h"

#include "pool/write.h"

#define CHUNKS 6u
#define PAGES 250u

static struct tide_request to(uint32_t chunks)
{
	return (struct tide_request){.target_bytes = chunks * FX_CHUNK};
}

START_TEST(every_size_from_every_size)
{
	uint64_t beside[CHUNKS + 1] = {0};
	struct fx fx;

	fx_open(&fx, CHUNKS, 1);
	for (uint32_t from = 1; from <= CHUNKS; from++)
		for (uint32_t size = 1; size <= CHUNKS; size++) {
			(void)fx_resize(fx.s, from);
			for (uint64_t page = 0; page < PAGES; page++)
				fx_put(fx.s, page, from * 10 + size);
			(void)fx_resize(fx.s, size);
			for (uint64_t page = 0; page < PAGES; page++)
				ck_assert_uint_eq(fx_get(fx.s, page), from * 10 + size);
			fx_check(&fx);
			ck_assert_uint_eq(fx_status(&fx).committed_bytes, size * FX_CHUNK);
			if (beside[size] == 0)
				beside[size] = fx_status(&fx).beside_bytes;
			ck_assert_uint_eq(fx_status(&fx).beside_bytes, beside[size]);
		}
	fx_close(&fx);
}
END_TEST

START_TEST(two_hundred_sizes)
{
	uint64_t beside[CHUNKS + 1] = {0};
	uint64_t version[PAGES] = {0};
	uint32_t x = 5;
	struct fx fx;

	fx_open(&fx, CHUNKS, 2);
	for (int i = 0; i < 200; i++) {
		uint32_t size;

		for (int k = 0; k < 60; k++) {
			uint32_t page;

			x = x * 1664525 + 1013904223;
			page = (x >> 8) % PAGES;
			if (x >> 5 & 1)
				fx_put(fx.s, page, ++version[page]);
			else
				ck_assert_uint_eq(fx_get(fx.s, page), version[page]);
		}
		x = x * 1664525 + 1013904223;
		size = 1 + (x >> 16) % CHUNKS;
		(void)fx_resize(fx.s, size);
		fx_check(&fx);
		if (beside[size] == 0)
			beside[size] = fx_status(&fx).beside_bytes;
		ck_assert_uint_eq(fx_status(&fx).beside_bytes, beside[size]);
	}
	for (uint64_t page = 0; page < PAGES; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), version[page]);
	fx_close(&fx);
}
END_TEST

START_TEST(requests_are_refused)
{
	struct tide_request request = to(CHUNKS + 1);
	struct tide_resizer *resizer = (struct tide_resizer *)&resizer;
	struct tide_progress progress;
	struct tide_reason reason;
	struct tide_session *other;
	struct tide_fix fix;
	struct fx fx;

	fx_open(&fx, CHUNKS, 2);
	ck_assert_int_eq(tide_pool_resize(fx.s, &request, &progress, &reason), TIDE_ABOVE_MAX);
	request.target_bytes = FX_CHUNK / 2;
	ck_assert_int_eq(tide_pool_resize(fx.s, &request, &progress, &reason), TIDE_BELOW_MIN);
	ck_assert_uint_eq(progress.op, 0);
	fix = fx_fix(fx.s, 1, TIDE_FIX_PIN);
	request = to(1);
	ck_assert_int_eq(tide_pool_resize(fx.s, &request, &progress, &reason), TIDE_BAD_REQUEST);
	tide_pool_unfix(fx.s, &fix);
	ck_assert_int_eq(tide_resizer_open(NULL, &resizer, &reason), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_resizer_open(fx.s, NULL, &reason), TIDE_BAD_REQUEST);
	/* One at a time. */
	FX_OK(tide_resizer_open(fx.s, &resizer, &why));
	FX_OK(tide_session_open(fx.pool, &other, &why));
	ck_assert_int_eq(tide_pool_resize(other, &request, &progress, &reason),
			 TIDE_OP_IN_PROGRESS);
	tide_resizer_close(resizer);
	tide_resizer_close(NULL);
	(void)fx_resize(other, 1);
	tide_session_close(other);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(dry_run_changes_nothing)
{
	struct tide_request request = to(1);
	struct tide_progress progress;
	struct fx fx;

	fx_open(&fx, CHUNKS, 3);
	request.dry_run = 1;
	progress = fx_request(fx.s, request);
	ck_assert_int_eq(progress.state, TIDE_OP_DONE);
	ck_assert_int_eq(progress.dry_run, 1);
	ck_assert_uint_eq(fx_status(&fx).allocatable_bytes, 3 * FX_CHUNK);
	request.target_bytes = CHUNKS * FX_CHUNK;
	ck_assert_int_eq(fx_request(fx.s, request).state, TIDE_OP_DONE);
	ck_assert_uint_eq(fx_status(&fx).committed_bytes, 3 * FX_CHUNK);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(chunks_linger)
{
	struct tide_request request = to(1);
	struct tide_resizer *resizer;
	struct tide_pool_status status;
	struct fx fx;
	uint64_t wait_ns;

	fx_open(&fx, CHUNKS, 4);
	for (uint64_t page = 0; page < PAGES; page++)
		fx_put(fx.s, page, 1);
	request.linger_ns = 60000000000;
	ck_assert_int_eq(fx_request(fx.s, request).state, TIDE_OP_DONE);
	status = fx_status(&fx);
	ck_assert_uint_eq(status.allocatable_bytes, FX_CHUNK);
	ck_assert_uint_eq(status.committed_bytes, 4 * FX_CHUNK);
	ck_assert_uint_eq(status.chunks[TIDE_CHUNK_LINGERING], 3);
	fx_check(&fx);
	/* They come back without the kernel. */
	(void)fx_resize(fx.s, 3);
	ck_assert_uint_eq(fx_status(&fx).chunks[TIDE_CHUNK_LINGERING], 1);
	for (uint64_t page = 0; page < PAGES; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), 1);
	request.linger_ns = 1;
	ck_assert_int_eq(fx_request(fx.s, request).state, TIDE_OP_DONE);
	FX_OK(tide_resizer_open(fx.s, &resizer, &why));
	while (fx_status(&fx).chunks[TIDE_CHUNK_LINGERING] > 1)
		(void)tide_resizer_step(resizer, &wait_ns);
	tide_resizer_close(resizer);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* --- what stands in the way ----------------------------------------------------------------------- */

static const struct tide_blocker *find(const struct tide_blocker *blockers, uint32_t n,
				       uint32_t process)
{
	for (uint32_t i = 0; i < n; i++)
		if (blockers[i].process_id == process)
			return &blockers[i];
	return NULL;
}

/* Pins @argument pages from 100 on, in every chunk, and stops. */
static void pin_and_stop(struct fx *fx, void *argument)
{
	const uint64_t n = *(const uint64_t *)argument;

	for (uint64_t i = 0; i < n; i++)
		(void)fx_fix(fx->s, i * FX_CHUNK_BUFFERS, i % 2 ? TIDE_FIX_READ : TIDE_FIX_PIN);
	fx_stop();
}

struct watch {
	struct fx *fx;
	struct tide_request request;
	struct tide_progress progress;
	int code;
};

static struct watch watch;

static void act_resize(struct fx_actor *actor)
{
	struct tide_reason why;

	actor->code = tide_pool_resize(actor->s, &watch.request, &watch.progress, &why);
}

static void fill(struct fx *fx, uint32_t chunks)
{
	fx_open(fx, CHUNKS, chunks);
	for (uint64_t page = 0; page < chunks * FX_CHUNK_BUFFERS; page++)
		fx_put(fx->s, page, page + 1);
}

START_TEST(pins_are_named_and_the_deadline_holds)
{
	struct fx_actor resizer = {0};
	struct tide_blocker blockers[4];
	const struct tide_blocker *it = NULL;
	uint64_t pins = 4;
	struct fx fx;
	pid_t child;

	fill(&fx, 4);
	child = fx_fork(&fx, pin_and_stop, &pins);
	fx_wait_stopped(child);
	watch.request = to(1);
	watch.request.deadline_ns = 300000000;
	ck_assert_uint_eq(tide_pool_blockers(fx.pool, blockers, 4), 0);
	fx_start(&resizer, &fx, act_resize);
	while (!it) {
		uint32_t n = tide_pool_blockers(fx.pool, blockers, 4);

		ck_assert(!atomic_load(&resizer.done));
		it = find(blockers, n < 4 ? n : 4, (uint32_t)child);
		if (it && (it->fixes < 3 || it->blocked_ns == 0))
			it = NULL;
	}
	ck_assert_uint_eq(it->thread_id, (uint32_t)child);
	ck_assert_uint_eq(it->in_section, 0);
	ck_assert_uint_ge(tide_pool_blockers(fx.pool, NULL, 0), 1);
	fx_join(&resizer);
	ck_assert_int_eq(resizer.code, 0);
	ck_assert_int_eq(watch.progress.state, TIDE_OP_PARTIAL);
	ck_assert_int_eq(watch.progress.reason.code, TIDE_PINNED_BUFFERS);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(fx_reap_child(child), SIGKILL);
	(void)fx_resize(fx.s, 1);
	for (uint64_t page = 0; page < 4 * FX_CHUNK_BUFFERS; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Another chunk goes in the place of one with a pin that stays. */
START_TEST(chunk_with_a_stubborn_pin_is_exchanged)
{
	struct fx_actor holder = {.page = 4 * FX_CHUNK_BUFFERS - 1, .mode = TIDE_FIX_READ};
	struct fx fx;

	fill(&fx, 4);
	fx_start(&holder, &fx, fx_act_fix);
	fx_await(&holder, 1);
	(void)fx_resize(fx.s, 2);
	ck_assert_uint_eq(fx_buffer(&fx, holder.page), holder.fix.buffer);
	ck_assert_uint_eq(fx_version(holder.fix.page, 0, holder.page), holder.page + 1);
	fx_let(&holder, 1);
	fx_join(&holder);
	fx_check(&fx);
	(void)fx_resize(fx.s, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static void stop_in_a_section(struct fx *fx, void *argument)
{
	(void)argument;
	tide_reader_enter(&fx->s->reader);
	fx_stop();
	tide_reader_leave(&fx->s->reader);
}

/* A reader that is stopped delays the memory and nothing else, and is named; killed, it delays nothing. */
static void stopped_reader(int signal)
{
	struct fx_actor resizer = {0};
	struct tide_blocker blocker = {0};
	struct fx fx;
	pid_t child;

	fill(&fx, 4);
	child = fx_fork(&fx, stop_in_a_section, NULL);
	fx_wait_stopped(child);
	watch.request = to(1);
	fx_start(&resizer, &fx, act_resize);
	FX_UNTIL(tide_pool_blockers(fx.pool, &blocker, 1) == 1 && blocker.in_section);
	ck_assert_uint_eq(blocker.process_id, (uint32_t)child);
	/* Everything is drained meanwhile, and others use the pool. */
	FX_UNTIL(fx_status(&fx).chunks[TIDE_CHUNK_QUIESCING] == 3);
	for (uint64_t page = 0; page < PAGES / 2; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page < 128 ? page + 1 : 0);
	ck_assert_uint_eq(fx_status(&fx).committed_bytes, 4 * FX_CHUNK);
	ck_assert(!atomic_load(&resizer.done));
	ck_assert_int_eq(kill(child, signal), 0);
	ck_assert_int_eq(fx_reap_child(child), signal == SIGCONT ? 0 : SIGKILL);
	fx_join(&resizer);
	ck_assert_int_eq(watch.progress.state, TIDE_OP_DONE);
	ck_assert_uint_eq(fx_status(&fx).committed_bytes, FX_CHUNK);
	ck_assert_uint_eq(tide_pool_blockers(fx.pool, &blocker, 1), 0);
	fx_check(&fx);
	fx_close(&fx);
}

START_TEST(reader_that_is_stopped_delays_memory_only)
{
	stopped_reader(SIGCONT);
	stopped_reader(SIGKILL);
}
END_TEST

/* Each has buffers in two chunks, so that no other chunk can go in their place. */
static void stop_with_claims(struct fx *fx, void *argument)
{
	struct tide_reason why;

	(void)argument;
	fx_at(POOL_PAUSE_CLAIMED, 1, fx_stop);
	ck_assert_int_eq(tide_pool_drop(fx->s, 0, FX_CHUNK_BUFFERS - 1, 2, &why), 0);
}

static void stop_writing(struct fx *fx, void *argument)
{
	const uint32_t buffers[] = {fx_buffer(fx, 0), fx_buffer(fx, FX_CHUNK_BUFFERS)};
	struct written written;
	struct tide_reason why;

	(void)argument;
	fx_at(POOL_PAUSE_WRITTEN, 1, fx_stop);
	ck_assert_int_eq(write_out(fx->s, buffers, 2, &written, &why), 0);
}

/* Whoever is stopped with a buffer of a chunk that goes is named, too. */
static void stopped_owner(void (*stop)(struct fx *, void *))
{
	struct fx_actor resizer = {0};
	struct tide_blocker blocker = {0};
	struct fx fx;
	pid_t child;

	fill(&fx, 4);
	child = fx_fork(&fx, stop, NULL);
	fx_wait_stopped(child);
	watch.request = to(1);
	fx_start(&resizer, &fx, act_resize);
	FX_UNTIL(tide_pool_blockers(fx.pool, &blocker, 1) >= 1 &&
		 blocker.process_id == (uint32_t)child && blocker.fixes > 0);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(fx_reap_child(child), SIGKILL);
	fx_join(&resizer);
	ck_assert_int_eq(watch.progress.state, TIDE_OP_DONE);
	fx_check(&fx);
	fx_close(&fx);
}

START_TEST(owner_that_is_stopped_is_named)
{
	stopped_owner(stop_with_claims);
	stopped_owner(stop_writing);
}
END_TEST

/* --- cancel --------------------------------------------------------------------------------------- */

START_TEST(shrink_is_cancelled)
{
	struct fx_actor resizer = {0}, holder = {.page = 0, .mode = TIDE_FIX_PIN};
	struct fx fx;
	uint64_t pins = 4;
	pid_t child;

	fill(&fx, 4);
	child = fx_fork(&fx, pin_and_stop, &pins);
	fx_wait_stopped(child);
	watch.request = to(1);
	fx_start(&resizer, &fx, act_resize);
	FX_UNTIL(fx_status(&fx).chunks[TIDE_CHUNK_DRAINING] > 0);
	tide_pool_resize_cancel(fx.pool);
	fx_join(&resizer);
	ck_assert_int_eq(watch.progress.state, TIDE_OP_CANCELLED);
	ck_assert_int_eq(watch.progress.reason.code, TIDE_CANCELLED);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	ck_assert_int_eq(fx_reap_child(child), SIGKILL);
	fx_start(&holder, &fx, fx_act_fix);
	fx_await(&holder, 1);
	fx_let(&holder, 1);
	fx_join(&holder);
	(void)tide_pool_reap(fx.s);
	for (uint64_t page = 0; page < 4 * FX_CHUNK_BUFFERS; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

static void cancel_here(void)
{
	tide_pool_resize_cancel(watch.fx->pool);
}

START_TEST(grow_is_cancelled)
{
	struct fx fx;

	fx_open(&fx, CHUNKS, 1);
	watch.fx = &fx;
	fx_at(POOL_PAUSE_ARRAYS, 2, cancel_here);
	ck_assert_int_eq(fx_request(fx.s, to(CHUNKS)).state, TIDE_OP_CANCELLED);
	ck_assert_uint_eq(fx_status(&fx).committed_bytes, FX_CHUNK);
	fx_check(&fx);
	/* One that comes when nothing runs means nothing. */
	tide_pool_resize_cancel(fx.pool);
	(void)fx_resize(fx.s, CHUNKS);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* A resizer that is closed in the middle: the next one goes on from what it finds. */
START_TEST(resizer_is_closed_in_the_middle)
{
	struct tide_resizer *resizer;
	struct tide_request request = to(1);
	struct fx fx;
	uint64_t wait_ns;

	fill(&fx, 4);
	for (int steps = 1; steps < 12; steps++) {
		FX_OK(tide_resizer_open(fx.s, &resizer, &why));
		FX_OK(tide_engine_submit(tide_resizer_engine(resizer), &request, 0, &why));
		for (int i = 0; i < steps; i++)
			(void)tide_resizer_step(resizer, &wait_ns);
		tide_resizer_close(resizer);
		(void)fx_resize(fx.s, 4);
		fx_check(&fx);
		for (uint64_t page = 0; page < 4 * FX_CHUNK_BUFFERS; page++)
			ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
		request.target_bytes = steps % 2 ? CHUNKS * FX_CHUNK : FX_CHUNK;
	}
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(every_size_from_every_size),
		FX_TEST(two_hundred_sizes),
		FX_TEST(requests_are_refused),
		FX_TEST(dry_run_changes_nothing),
		FX_TEST(chunks_linger),
		FX_TEST(pins_are_named_and_the_deadline_holds),
		FX_TEST(chunk_with_a_stubborn_pin_is_exchanged),
		FX_TEST(reader_that_is_stopped_delays_memory_only),
		FX_TEST(owner_that_is_stopped_is_named),
		FX_TEST(shrink_is_cancelled),
		FX_TEST(grow_is_cancelled),
		FX_TEST(resizer_is_closed_in_the_middle),
	};

	return fx_run("pool-resize", tests, sizeof(tests) / sizeof(tests[0]));
}
