/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool/grace.c - what a read section costs, and a grace period.
 *
 * Sections: enter and leave in a loop, per turn, loop included; the floor is the loop alone. Periods:
 * from start to passed, while participants are registered and idle, each a thread that sleeps.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

#include <tidepool/grace.h>

#include "bench-pool/bench.h"

#define MAX_ROUNDS 64u
#define IDLE_MAX 1000u
#define STACK_BYTES (64u << 10)

struct section_figures {
	double floor_ns, plain_ns, fenced_ns, liburcu_ns;
};

struct period_figures {
	double nobody_us, idle_us;
};

static int say(const char *what, const struct tide_reason *why)
{
	(void)fprintf(stderr, "grace: %s: %s\n", what, why->message);
	return -1;
}

/* --- sections --------------------------------------------------------------------------------- */

static double loop_ns(struct tide_reader *reader, unsigned turns)
{
	uint64_t begin = bench_now_ns();

	if (reader) {
		for (unsigned i = 0; i < turns; i++) {
			tide_reader_enter(reader);
			__asm__ volatile("" ::: "memory");
			tide_reader_leave(reader);
		}
	} else {
		for (unsigned i = 0; i < turns; i++)
			__asm__ volatile("" ::: "memory");
	}
	return (double)(bench_now_ns() - begin) / turns;
}

static double median_ns(const struct bench_options *options, struct tide_reader *reader)
{
	const unsigned rounds = bench_rounds(options, MAX_ROUNDS);
	const unsigned turns = options->quick ? 100000 : 20000000;
	double values[MAX_ROUNDS];

	for (unsigned i = 0; i < rounds; i++)
		values[i] = loop_ns(reader, turns);
	return bench_median(values, rounds);
}

static int measure_kind(const struct bench_options *options, struct tide_grace *grace,
			double *plain_ns, double *fenced_ns)
{
	struct tide_reader reader;
	struct tide_reason why;

	if (tide_reader_register(grace, &reader, &why) != TIDE_OK)
		return say("register", &why);
	*plain_ns = median_ns(options, &reader);
	if (fenced_ns) {
		/* What a reader is where membarrier(2) cannot be had; one that fences needlessly is right. */
		reader.mode = TIDE_READER_FENCED;
		*fenced_ns = median_ns(options, &reader);
	}
	tide_reader_unregister(&reader);
	return 0;
}

static int measure_sections(const struct bench_options *options, struct tide_grace *shared,
			    struct section_figures *out)
{
	struct tide_grace *threads;
	struct tide_reason why;
	int rc;

	out->floor_ns = median_ns(options, NULL);
	rc = measure_kind(options, shared, &out->plain_ns, &out->fenced_ns);
	if (rc != 0)
		return rc;
	if (tide_grace_open(TIDE_GRACE_THREADS, NULL, &threads, &why) != TIDE_OK)
		return say("open for threads", &why);
	rc = measure_kind(options, threads, &out->liburcu_ns, NULL);
	tide_grace_close(threads);
	return rc;
}

/* --- periods ---------------------------------------------------------------------------------- */

/* @registered: by how many threads; they end when @end is unlocked. */
struct idlers {
	struct tide_grace *grace;
	pthread_mutex_t end;
	_Atomic unsigned registered, failed;
	unsigned n;
	pthread_t threads[IDLE_MAX];
};

static void *idle(void *argument)
{
	struct idlers *idlers = argument;
	struct tide_reader reader;

	if (tide_reader_register(idlers->grace, &reader, NULL) != TIDE_OK) {
		atomic_fetch_add(&idlers->failed, 1);
		return NULL;
	}
	atomic_fetch_add(&idlers->registered, 1);
	pthread_mutex_lock(&idlers->end);
	pthread_mutex_unlock(&idlers->end);
	tide_reader_unregister(&reader);
	return NULL;
}

/* The caller holds idlers->end. 0 when all of them are registered. */
static int start_idlers(struct idlers *idlers)
{
	pthread_attr_t attributes;
	int error = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	while (idlers->n < IDLE_MAX && !error) {
		error = pthread_create(&idlers->threads[idlers->n], &attributes, idle, idlers);
		idlers->n += !error;
	}
	pthread_attr_destroy(&attributes);
	while (atomic_load(&idlers->registered) + atomic_load(&idlers->failed) < idlers->n)
		(void)sched_yield();
	return error || atomic_load(&idlers->failed) > 0 ? -1 : 0;
}

static double median_period_us(const struct bench_options *options, struct tide_grace *grace)
{
	const unsigned rounds = bench_rounds(options, MAX_ROUNDS);
	const unsigned periods = options->quick ? 20 : 2000;
	double values[MAX_ROUNDS];

	for (unsigned i = 0; i < rounds; i++) {
		uint64_t begin = bench_now_ns();

		for (unsigned k = 0; k < periods; k++) {
			uint64_t ticket = tide_grace_start(grace);

			while (!tide_grace_poll(grace, ticket))
				;
		}
		values[i] = (double)(bench_now_ns() - begin) / periods / 1e3;
	}
	return bench_median(values, rounds);
}

static int measure_periods(const struct bench_options *options, struct tide_grace *grace,
			   struct period_figures *out)
{
	static struct idlers idlers = {.end = PTHREAD_MUTEX_INITIALIZER};
	int rc;

	out->nobody_us = median_period_us(options, grace);
	idlers.grace = grace;
	pthread_mutex_lock(&idlers.end);
	rc = start_idlers(&idlers);
	if (rc == 0)
		out->idle_us = median_period_us(options, grace);
	else
		(void)fprintf(stderr, "grace: %u idle participants cannot be had\n", IDLE_MAX);
	pthread_mutex_unlock(&idlers.end);
	for (unsigned i = 0; i < idlers.n; i++)
		pthread_join(idlers.threads[i], NULL);
	return rc;
}

static json_t *report(const struct section_figures *sections, const struct period_figures *periods)
{
	char against[128];

	(void)snprintf(against, sizeof(against), "limit 3, loop alone %.2f", sections->floor_ns);
	bench_row("read section, plain", sections->plain_ns, "ns", against);
	bench_row("read section, fenced", sections->fenced_ns, "ns", against);
	(void)snprintf(against, sizeof(against), "loop alone %.2f", sections->floor_ns);
	bench_row("read section, liburcu", sections->liburcu_ns, "ns", against);
	bench_row("grace period, nobody else", periods->nobody_us, "us", "");
	bench_row("grace period, 1,000 idle participants", periods->idle_us, "us", "limit 150");
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "floor_ns", sections->floor_ns,
			 "section_plain_ns", sections->plain_ns, "section_fenced_ns",
			 sections->fenced_ns, "section_liburcu_ns", sections->liburcu_ns,
			 "period_nobody_us", periods->nobody_us, "period_idle_1000_us",
			 periods->idle_us);
}

json_t *bench_grace(const struct bench_options *options)
{
	const size_t bytes = tide_grace_table_bytes(IDLE_MAX + 1);
	struct section_figures sections;
	struct period_figures periods;
	struct tide_grace *grace = NULL;
	json_t *figures = NULL;
	struct tide_reason why;
	void *table;

	table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED) {
		perror("grace: mmap");
		return NULL;
	}
	if (tide_grace_table_init(table, IDLE_MAX + 1, &why) != TIDE_OK ||
	    tide_grace_open(TIDE_GRACE_SHARED, table, &grace, &why) != TIDE_OK)
		(void)say("open", &why);
	else if (measure_sections(options, grace, &sections) == 0 &&
		 measure_periods(options, grace, &periods) == 0)
		figures = report(&sections, &periods);
	tide_grace_close(grace);
	(void)munmap(table, bytes);
	return figures;
}
