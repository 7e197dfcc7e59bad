/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool_fixture.h - what tests of the pool stand on: a storage that can be watched, pages that tell
 * their version, threads and children with sessions of their own, pause points.
 *
 * Included by the one source file of a test program.
 */
#ifndef TIDE_TESTS_POOL_FIXTURE_H
#define TIDE_TESTS_POOL_FIXTURE_H

#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidepool/pool.h>

#include "pool/pause.h"
#include "pool/session.h"
#include "pool/shared.h"

#define FX_CHUNK (UINT64_C(2) << 20)
#define FX_PAGE 65536u /* 32 buffers to a chunk */
#define FX_CHUNK_BUFFERS (FX_CHUNK / FX_PAGE)
#define FX_FILES 4u
#define FX_PAGES 2048u /* of a file */
#define FX_UNTIL(condition)            \
	do {                           \
		while (!(condition))   \
			sched_yield(); \
	} while (0)

#define FX_OK(call)                                                                       \
	do {                                                                              \
		struct tide_reason why = {0};                                             \
		int fx_code = (call);                                                     \
		ck_assert_msg(fx_code == 0, "%s: %s: %s", #call, tide_code_name(fx_code), \
			      why.message);                                               \
	} while (0)

/* --- storage ------------------------------------------------------------------------------------ */

/* What is known of a page outside the pool; shared by all processes of a test. */
struct fx_page {
	_Atomic uint64_t stored;  /* version that was written last */
	_Atomic uint64_t durable; /* and that was synced */
	_Atomic int read_code, write_code;
	_Atomic uint32_t reads, writes;
};

struct fx_store {
	_Atomic int read_code, write_code, sync_code; /* of every transfer; 0 = succeeds */
	_Atomic uint64_t reads, writes, syncs;
	_Atomic uint32_t hold_reads, hold_writes, hold_syncs; /* 1 = transfers wait */
	_Atomic uint32_t failing_syncs;			      /* the next so many fail */
	_Atomic uint32_t held;				      /* so many do */
	struct fx_page page[FX_FILES][FX_PAGES];
};

static inline void fx_hold(struct fx_store *store, _Atomic uint32_t *gate)
{
	if (!atomic_load(gate))
		return;
	atomic_fetch_add(&store->held, 1);
	FX_UNTIL(!atomic_load(gate));
	atomic_fetch_sub(&store->held, 1);
}

/* A page tells file, number and version at its beginning, in its middle and at its end. */
static inline void fx_fill(void *page, uint64_t file, uint64_t number, uint64_t version)
{
	const uint64_t words[3] = {file, number, version};

	memcpy(page, words, sizeof(words));
	memcpy((char *)page + FX_PAGE / 2, words, sizeof(words));
	memcpy((char *)page + FX_PAGE - sizeof(words), words, sizeof(words));
}

/* The version; zeros are version 0 of any page. */
static inline uint64_t fx_version(const void *page, uint64_t file, uint64_t number)
{
	const char *at = page;
	uint64_t words[3];

	memcpy(words, at, sizeof(words));
	ck_assert_int_eq(memcmp(words, at + FX_PAGE / 2, sizeof(words)), 0);
	ck_assert_int_eq(memcmp(words, at + FX_PAGE - sizeof(words), sizeof(words)), 0);
	if (words[0] == 0 && words[1] == 0 && words[2] == 0)
		return 0;
	ck_assert_uint_eq(words[0], file);
	ck_assert_uint_eq(words[1], number);
	return words[2];
}

static inline int fx_read(struct fx_store *store, struct tide_io *io)
{
	struct fx_page *page = &store->page[io->id.file][io->id.page];
	const uint64_t stored = atomic_load(&page->stored);

	fx_hold(store, &store->hold_reads);
	if (atomic_load(&store->read_code))
		return atomic_load(&store->read_code);
	if (atomic_load(&page->read_code))
		return atomic_load(&page->read_code);
	memset(io->page, 0, FX_PAGE);
	if (stored)
		fx_fill(io->page, io->id.file, io->id.page, stored);
	atomic_fetch_add(&page->reads, 1);
	atomic_fetch_add(&store->reads, 1);
	return 0;
}

static inline int fx_write(struct fx_store *store, struct tide_io *io)
{
	struct fx_page *page = &store->page[io->id.file][io->id.page];
	const uint64_t version = fx_version(io->page, io->id.file, io->id.page);

	fx_hold(store, &store->hold_writes);
	if (atomic_load(&store->write_code))
		return atomic_load(&store->write_code);
	if (atomic_load(&page->write_code))
		return atomic_load(&page->write_code);
	ck_assert_uint_eq(fx_version(io->page, io->id.file, io->id.page), version);
	atomic_store(&page->stored, version);
	atomic_fetch_add(&page->writes, 1);
	atomic_fetch_add(&store->writes, 1);
	return 0;
}

static inline int fx_transfer(void *self, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	int code = 0;

	ck_assert_uint_ge(n, 1);
	ck_assert_uint_le(n, TIDE_IO_BATCH);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_lt(ios[i].id.file, FX_FILES);
		ck_assert_uint_lt(ios[i].id.page, FX_PAGES);
		ios[i].code = ios[i].write ? fx_write(self, &ios[i]) : fx_read(self, &ios[i]);
		if (ios[i].code)
			code = tide_reason_set(why, ios[i].code, 0,
					       "the test lets page %" PRIu64 " fail",
					       ios[i].id.page);
	}
	return code;
}

static inline int fx_sync(void *self, uint64_t file, struct tide_reason *why)
{
	struct fx_store *store = self;

	if (atomic_load(&store->failing_syncs) > 0) {
		atomic_fetch_sub(&store->failing_syncs, 1);
		return tide_reason_set(why, TIDE_IO_ERROR, 0, "this sync fails");
	}
	for (uint32_t i = 0; i < FX_PAGES && !atomic_load(&store->sync_code); i++)
		atomic_store(&store->page[file][i].durable,
			     atomic_load(&store->page[file][i].stored));
	fx_hold(store, &store->hold_syncs);
	atomic_fetch_add(&store->syncs, 1);
	if (atomic_load(&store->sync_code))
		return tide_reason_set(why, atomic_load(&store->sync_code), 0, "no sync");
	return 0;
}

static const struct tide_storage_ops fx_ops = {.transfer = fx_transfer, .sync = fx_sync};

/* --- pause points ------------------------------------------------------------------------------- */

/* What happens at the @pass-th pass of the point, in the process that set it. */
struct fx_point {
	_Atomic uint32_t passes;
	_Atomic uint32_t pass;
	void (*act)(void);
};

static struct fx_point fx_points[POOL_PAUSES];

void pool_pause(enum pool_pause at)
{
	struct fx_point *point = &fx_points[at];

	if (atomic_fetch_add(&point->passes, 1) + 1 == atomic_load(&point->pass))
		point->act();
}

static inline void fx_at(enum pool_pause at, uint32_t pass, void (*act)(void))
{
	fx_points[at].act = act;
	atomic_store(&fx_points[at].passes, 0);
	atomic_store(&fx_points[at].pass, pass);
}

static inline void fx_die(void)
{
	(void)kill(getpid(), SIGKILL);
}

static inline void fx_stop(void)
{
	(void)raise(SIGSTOP);
}

/* --- pool and sessions -------------------------------------------------------------------------- */

struct fx {
	struct fx_store *store;
	struct tide_pool *pool;
	struct tide_session *s; /* of the test's thread */
};

static inline void *fx_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	return memory;
}

static inline struct tide_storage fx_storage(struct fx_store *store)
{
	return (struct tide_storage){.ops = &fx_ops, .self = store};
}

static inline struct tide_pool_config fx_config(struct fx_store *store, uint32_t max_chunks,
						uint32_t start_chunks)
{
	return (struct tide_pool_config){.name = "tidepool-test",
					 .page_bytes = FX_PAGE,
					 .max_bytes = max_chunks * FX_CHUNK,
					 .start_bytes = start_chunks * FX_CHUNK,
					 .max_sessions = 12,
					 .huge = TIDE_HUGE_OFF,
					 .storage = fx_storage(store)};
}

static inline void fx_open(struct fx *fx, uint32_t max_chunks, uint32_t start_chunks)
{
	struct tide_pool_config config;

	for (int i = 0; i < POOL_PAUSES; i++)
		fx_at((enum pool_pause)i, 0, NULL);
	fx->store = fx_shared(sizeof(*fx->store));
	config = fx_config(fx->store, max_chunks, start_chunks);
	FX_OK(tide_pool_create(&config, &fx->pool, &why));
	FX_OK(tide_session_open(fx->pool, &fx->s, &why));
}

static inline void fx_close(struct fx *fx)
{
	tide_session_close(fx->s);
	tide_pool_detach(fx->pool);
	munmap(fx->store, sizeof(*fx->store));
}

static inline struct tide_page_id fx_id(uint64_t page)
{
	return (struct tide_page_id){.file = page / FX_PAGES, .page = page % FX_PAGES};
}

static inline struct fx_page *fx_stored(struct fx *fx, uint64_t page)
{
	return &fx->store->page[page / FX_PAGES][page % FX_PAGES];
}

static inline int fx_try(struct tide_session *s, uint64_t page, enum tide_fix_mode mode,
			 struct tide_fix *fix, struct tide_reason *why)
{
	const struct tide_page_id id = fx_id(page);

	*why = (struct tide_reason){0};
	return tide_pool_fix(s, &id, mode, fix, why);
}

static inline struct tide_fix fx_fix(struct tide_session *s, uint64_t page, enum tide_fix_mode mode)
{
	struct tide_fix fix;
	struct tide_reason why;
	int code = fx_try(s, page, mode, &fix, &why);

	ck_assert_msg(code == 0, "page %" PRIu64 ": %s: %s", page, tide_code_name(code),
		      why.message);
	return fix;
}

/* The code of a fix that has to fail. */
static inline int fx_refused(struct tide_session *s, uint64_t page, enum tide_fix_mode mode)
{
	struct tide_reason why;
	struct tide_fix fix;
	int code = fx_try(s, page, mode, &fix, &why);

	ck_assert_int_lt(code, 0);
	ck_assert_int_eq(why.code, code);
	ck_assert_int_ne(why.message[0], 0);
	return code;
}

static inline void fx_put(struct tide_session *s, uint64_t page, uint64_t version)
{
	struct tide_fix fix = fx_fix(s, page, TIDE_FIX_WRITE);

	tide_pool_mark_dirty(s, &fix);
	fx_fill(fix.page, page / FX_PAGES, page % FX_PAGES, version);
	tide_pool_unfix(s, &fix);
}

static inline uint64_t fx_get(struct tide_session *s, uint64_t page)
{
	struct tide_fix fix = fx_fix(s, page, TIDE_FIX_READ);
	uint64_t version = fx_version(fix.page, page / FX_PAGES, page % FX_PAGES);

	tide_pool_unfix(s, &fix);
	return version;
}

/* The buffer that holds a page at this moment, or TIDE_LOOKUP_NONE. */
static inline uint32_t fx_buffer(struct fx *fx, uint64_t page)
{
	const struct tide_page_id id = fx_id(page);
	uint32_t buffer;

	tide_reader_enter(&fx->s->reader);
	buffer = tide_lookup_find(fx->pool->lookup, &id, tide_lookup_hash(fx->pool->lookup, &id));
	tide_reader_leave(&fx->s->reader);
	return buffer;
}

static inline uint64_t fx_state(struct fx *fx, uint64_t page)
{
	const uint32_t buffer = fx_buffer(fx, page);

	return buffer == TIDE_LOOKUP_NONE ? 0 : descriptor_state(&fx->pool->descriptors[buffer]);
}

static inline struct tide_pool_status fx_status(struct fx *fx)
{
	struct tide_pool_status status;

	FX_OK(tide_pool_status(fx->pool, &status, &why));
	return status;
}

static inline int fx_flush(struct fx *fx)
{
	struct tide_reason why = {0};

	return tide_pool_flush(fx->s, TIDE_ALL_FILES, 0, TIDE_ALL_PAGES, &why);
}

static inline struct tide_progress fx_request(struct tide_session *s, struct tide_request request)
{
	struct tide_progress progress;

	FX_OK(tide_pool_resize(s, &request, &progress, &why));
	return progress;
}

/* To so many chunks, which has to succeed. */
static inline struct tide_progress fx_resize(struct tide_session *s, uint32_t chunks)
{
	struct tide_progress progress =
		fx_request(s, (struct tide_request){.target_bytes = chunks * FX_CHUNK});

	ck_assert_msg(progress.state == TIDE_OP_DONE, "%s: %s", tide_op_state_name(progress.state),
		      progress.reason.message);
	ck_assert_uint_eq(progress.allocatable_bytes, chunks * FX_CHUNK);
	return progress;
}

/* Every free buffer is counted, or noted by a session; nobody else is at work. */
static inline void fx_check_free(struct fx *fx)
{
	const struct tide_pool *pool = fx->pool;
	int64_t total = 0;

	for (uint32_t chunk = 0; chunk < pool->shared->layout.n_chunks; chunk++) {
		uint32_t n = 0;

		if (!pool_chunk_active(pool, chunk))
			continue;
		for (uint32_t i = 0; i < pool->shared->layout.chunk_buffers; i++) {
			const uint64_t state = descriptor_state(
				&pool->descriptors[(chunk << pool->chunk_shift) + i]);

			n += state_is_free(state) && !(state & STATE_HINT);
		}
		/* A death may leave a count too high; never too low. */
		ck_assert_uint_ge(atomic_load(&pool->free_counts[chunk]), n);
		total += n;
	}
	ck_assert_int_ge(atomic_load(&pool->shared->n_free), total);
}

static inline void fx_check(struct fx *fx)
{
	struct tide_pool_status status;

	FX_OK(tide_pool_check(fx->s, &why));
	status = fx_status(fx);
	ck_assert_uint_eq(status.committed_bytes,
			  status.allocatable_bytes +
				  status.chunks[TIDE_CHUNK_LINGERING] * status.chunk_bytes);
	fx_check_free(fx);
}

/* --- others ------------------------------------------------------------------------------------- */

/* A thread with a session of its own that does one thing. */
struct fx_actor {
	struct fx *fx;
	struct tide_session *s;
	void (*act)(struct fx_actor *actor);
	pthread_t thread;
	_Atomic uint32_t said, heard; /* steps that it reached, and may go to */
	_Atomic int done;
	uint64_t page;
	enum tide_fix_mode mode;
	struct tide_fix fix;
	int code;
};

static inline void *fx_actor_run(void *argument)
{
	struct fx_actor *actor = argument;

	FX_OK(tide_session_open(actor->fx->pool, &actor->s, &why));
	actor->act(actor);
	tide_session_close(actor->s);
	atomic_store(&actor->done, 1);
	return NULL;
}

static inline void fx_start(struct fx_actor *actor, struct fx *fx, void (*act)(struct fx_actor *))
{
	actor->fx = fx;
	actor->act = act;
	ck_assert_int_eq(pthread_create(&actor->thread, NULL, fx_actor_run, actor), 0);
}

static inline void fx_join(struct fx_actor *actor)
{
	ck_assert_int_eq(pthread_join(actor->thread, NULL), 0);
}

/* By the actor: it has come so far, and waits until it may go on. */
static inline void fx_say(struct fx_actor *actor, uint32_t step)
{
	atomic_store(&actor->said, step);
	FX_UNTIL(atomic_load(&actor->heard) >= step);
}

static inline void fx_await(struct fx_actor *actor, uint32_t step)
{
	FX_UNTIL(atomic_load(&actor->said) >= step);
}

static inline void fx_let(struct fx_actor *actor, uint32_t step)
{
	atomic_store(&actor->heard, step);
}

/* Fixes actor->page, says so, and lets go when it may. */
static inline void fx_act_fix(struct fx_actor *actor)
{
	struct tide_reason why;

	actor->code = fx_try(actor->s, actor->page, actor->mode, &actor->fix, &why);
	fx_say(actor, 1);
	if (actor->code == 0)
		tide_pool_unfix(actor->s, &actor->fix);
}

/* A child with a session of its own; it ends with 0, or as it dies. */
static inline pid_t fx_fork(struct fx *fx, void (*act)(struct fx *fx, void *argument),
			    void *argument)
{
	pid_t child = fork();

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		FX_OK(tide_session_open(fx->pool, &fx->s, &why));
		act(fx, argument);
		tide_session_close(fx->s);
		_exit(0);
	}
	return child;
}

/* 0, or the signal that ended it. */
static inline int fx_reap_child(pid_t child)
{
	int status = -1;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	return 0;
}

static inline void fx_wait_stopped(pid_t child)
{
	int status = 0;

	ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
	ck_assert(WIFSTOPPED(status));
}

struct fx_test {
	const char *name;
	const TTest *test;
};

#define FX_TEST(function)           \
	{                           \
#function, function \
	}

static inline int fx_run(const char *name, const struct fx_test *tests, size_t n)
{
	Suite *suite = suite_create(name);
	SRunner *runner;
	int failed;

	for (size_t i = 0; i < n; i++) {
		TCase *tcase = tcase_create(tests[i].name);

		tcase_set_timeout(tcase, 120);
		tcase_add_test(tcase, tests[i].test);
		suite_add_tcase(suite, tcase);
	}
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif /* TIDE_TESTS_POOL_FIXTURE_H */
