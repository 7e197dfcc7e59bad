/* SPDX-License-Identifier: PostgreSQL */
/*
 * bench-pool [--quick] [--rounds N] [--output FOLDER] [GROUP ...]: measures the embedded pool, prints a
 * table and writes FOLDER/pool_GROUP.json. To be run at the top of the source tree, where the recorded
 * trace is found.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench-pool/bench.h"

static const struct group {
	const char *name;
	json_t *(*run)(const struct bench_options *options);
} groups[] = {
	{"grace", bench_grace}, {"lookup", bench_lookup}, {"traces", bench_traces},
	{"pool", bench_pool},	{"resize", bench_resize},
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static void usage(FILE *out)
{
	fprintf(out, "usage: bench-pool [--quick] [--rounds N] [--output FOLDER] [GROUP ...]\n"
		     "  groups:");
	for (unsigned i = 0; i < GROUPS; i++)
		fprintf(out, " %s", groups[i].name);
	fprintf(out, "\n");
}

static const struct group *group_named(const char *name)
{
	for (unsigned i = 0; i < GROUPS; i++)
		if (strcmp(groups[i].name, name) == 0)
			return &groups[i];
	return NULL;
}

/* The CPU's name as the kernel gives it, in @name. */
static void cpu_name(char *name, size_t size)
{
	char line[256];
	FILE *file = fopen("/proc/cpuinfo", "re");

	snprintf(name, size, "unknown");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		const char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || colon == NULL)
			continue;
		colon += strspn(colon, ": ");
		snprintf(name, size, "%.*s", (int)strcspn(colon, "\n"), colon);
		break;
	}
	if (file != NULL)
		fclose(file);
}

/* What the figures were taken on. */
static json_t *facts(const struct bench_options *options, const char *group)
{
	struct utsname system = {0};
	char cpu[256], now[32];
	time_t seconds = time(NULL);
	struct tm utc;

	uname(&system);
	cpu_name(cpu, sizeof(cpu));
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
	return json_pack("{s:s, s:b, s:I, s:s, s:s, s:I, s:I, s:s}", "group", group, "quick",
			 options->quick, "rounds_count", (json_int_t)options->rounds, "kernel",
			 system.release, "cpu", cpu, "cpus_count",
			 (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "page_bytes",
			 (json_int_t)sysconf(_SC_PAGESIZE), "taken_at", now);
}

/* 0 or -errno; parents are made, too */
static int make_folder(const char *folder)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (char *slash = path; slash != NULL; *slash = '/') {
		slash = strchr(slash + 1, '/');
		if (slash != NULL)
			*slash = '\0';
		if (mkdir(path, 0777) != 0 && errno != EEXIST)
			return -errno;
		if (slash == NULL)
			break;
	}
	return 0;
}

/* Takes over @figures. */
static int write_figures(const struct bench_options *options, const char *group, json_t *figures)
{
	char path[PATH_MAX];
	json_t *all = facts(options, group);
	int failed = all == NULL || json_object_set(all, "values", figures) != 0;

	snprintf(path, sizeof(path), "%s/pool_%s.json", options->folder, group);
	if (!failed)
		failed = json_dump_file(all, path,
					JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
	if (failed)
		fprintf(stderr, "bench-pool: cannot write %s\n", path);
	json_decref(all);
	json_decref(figures);
	return failed ? -1 : 0;
}

static int run_group(const struct group *group, const struct bench_options *options)
{
	uint64_t start = bench_now_ns();
	json_t *figures;

	printf("\n%s\n", group->name);
	figures = group->run(options);
	if (figures == NULL)
		return -1;
	printf("  (%.0f s)\n", (double)(bench_now_ns() - start) / 1e9);
	return write_figures(options, group->name, figures);
}

/* The number of rounds, or 0. */
static unsigned rounds_of(const char *text)
{
	char *end;
	unsigned long rounds;

	errno = 0;
	rounds = strtoul(text, &end, 10);
	return errno == 0 && end != text && *end == '\0' && rounds <= 1000 ? (unsigned)rounds : 0;
}

/* 0 = go on, 1 = only help was wanted, -1 = wrong usage */
static int read_options(int argc, char **argv, struct bench_options *options)
{
	static const struct option known[] = {
		{"quick", no_argument, NULL, 'q'},
		{"rounds", required_argument, NULL, 'r'},
		{"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 'h')
			return 1;
		if (option == 'q')
			options->quick = 1;
		else if (option == 'o')
			options->folder = optarg;
		else if (option != 'r' || (options->rounds = rounds_of(optarg)) == 0)
			return -1;
	}
	for (int i = optind; i < argc; i++)
		if (group_named(argv[i]) == NULL)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	struct bench_options options = {.folder = "build/bench"};
	int failed = 0;
	int code = read_options(argc, argv, &options);

	if (code != 0) {
		usage(code > 0 ? stdout : stderr);
		return code > 0 ? 0 : 2;
	}
	if (options.rounds == 0)
		options.rounds = options.quick ? 1 : 5;
	code = make_folder(options.folder);
	if (code != 0) {
		fprintf(stderr, "bench-pool: %s: %s\n", options.folder, strerror(-code));
		return 1;
	}
	if (options.quick)
		printf("QUICK: the figures below say nothing about speed\n");
	for (unsigned i = 0; optind == argc && i < GROUPS; i++)
		failed |= run_group(&groups[i], &options);
	for (int i = optind; i < argc; i++)
		failed |= run_group(group_named(argv[i]), &options);
	printf("\nwritten to %s/\n", options.folder);
	return failed ? 1 : 0;
}
