/* SPDX-License-Identifier: PostgreSQL */
/*
 * connect_latency - opens and closes connections one after another and prints what each took.
 *
 *   connect_latency CONNINFO
 *
 * A line for each connection: when it began, in microseconds since the epoch, and how long it took
 * until the server was ready for a query, in microseconds. Ends on SIGINT, SIGTERM or the first
 * connection that cannot be had.
 */
#include <libpq-fe.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	(void)signal_number;
	stopped = 1;
}

static uint64_t clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};

	if (argc != 2) {
		fprintf(stderr, "usage: connect_latency CONNINFO\n");
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (!stopped) {
		uint64_t began = clock_us(CLOCK_REALTIME);
		uint64_t start = clock_us(CLOCK_MONOTONIC);
		PGconn *connection = PQconnectdb(argv[1]);
		uint64_t end = clock_us(CLOCK_MONOTONIC);

		if (PQstatus(connection) != CONNECTION_OK) {
			fprintf(stderr, "connect_latency: %s", PQerrorMessage(connection));
			PQfinish(connection);
			return 1;
		}
		printf("%llu %llu\n", (unsigned long long)began, (unsigned long long)(end - start));
		PQfinish(connection);
	}
	return 0;
}
