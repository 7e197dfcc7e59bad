/* SPDX-License-Identifier: PostgreSQL */
/* options.c - the command line. */
#include "options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "quantity.h"

static const char help[] =
	"usage: tidestress [OPTION...]\n"
	"Torment a buffer pool from many threads of many processes, and verify every page read.\n"
	"\n"
	"Who:\n"
	"  --processes N         participating processes (2), and a resizer\n"
	"  --threads N           threads of each (4)\n"
	"Pool:\n"
	"  --page-size SIZE      4kB to 64kB (8kB)\n"
	"  --max SIZE            its ceiling (64MB)\n"
	"  --start SIZE          its size at the beginning (half of the ceiling)\n"
	"  --huge off|try|on     huge pages (off)\n"
	"Pages:\n"
	"  --files N             files (4)\n"
	"  --pages N             pages of each (twice what the ceiling holds, over all files)\n"
	"  --storage file|memory where they are stored (file)\n"
	"  --directory FOLDER    where the temporary folder for files is made (TMPDIR, /tmp)\n"
	"  --direct              past the kernel's page cache\n"
	"Load:\n"
	"  --distribution uniform|zipf|scan|mix   (mix)\n"
	"  --skew S              of zipf, more than 0 up to 5 (0.99)\n"
	"  --write-ratio R       share of fixes that write, 0 to 1 (0.3)\n"
	"  --modes LIST          weights; pin and read share the reads, write and new the writes\n"
	"                        (pin=1,read=4,write=9,new=1)\n"
	"  --sample WORDS        verify so many words of a page instead of all\n"
	"Torments, each about every TIME, 0 = never:\n"
	"  --resize-interval TIME   the pool gets a random size (100ms)\n"
	"  --resize-min PERCENT     smallest size, of the ceiling (5)\n"
	"  --resize-max PERCENT     largest size (100)\n"
	"  --resizer process|thread who resizes: a process of its own, or the first thread of the first\n"
	"                           participant (process)\n"
	"  --flush-interval TIME    some pages or all are made durable (50ms)\n"
	"  --drop-interval TIME     some pages are dropped (1s)\n"
	"  --kill-interval TIME     SIGKILL of a process, in turn the resizer in a resize (1s)\n"
	"  --stop-interval TIME     SIGSTOP of a process for up to half a second (2s)\n"
	"  --validate-every TIME    everybody pauses and the pool is checked as a whole (5s)\n"
	"  --faults RATE            storage faults of each kind, of a million transfers; syncs fail 20\n"
	"                           times as often (0)\n"
	"Run:\n"
	"  --duration TIME       (10s)\n"
	"  --seed N              random numbers of all participants and the schedule of events follow\n"
	"                        from it; how threads interleave does not (random)\n"
	"  --hit-ratio           instead of tormenting: hit ratio by size of the working set\n"
	"  --json FILE           the result as JSON; - = standard output, and all else to standard error\n"
	"  --quiet               print found faults only\n"
	"  --progress            a line every second, also when the output is no terminal\n"
	"  --help\n"
	"\n"
	"SIZE has a unit kB, MB, GB or is in bytes. TIME has a unit us, ms, s, min, h or is in seconds.\n"
	"Odd processes attach to the pool by its descriptors and store without io_uring; the others\n"
	"inherit it and use io_uring where the kernel has it.\n"
	"ThreadSanitizer sees one process only: give it --processes 1 --resizer thread.\n"
	"Exit code: 0 = passed, 1 = a fault was found, 2 = bad usage, 77 = cannot run here.\n";

enum option_code {
	OPTION_PROCESSES = 1,
	OPTION_THREADS,
	OPTION_PAGE_SIZE,
	OPTION_MAX,
	OPTION_START,
	OPTION_HUGE,
	OPTION_FILES,
	OPTION_PAGES,
	OPTION_STORAGE,
	OPTION_DIRECTORY,
	OPTION_DIRECT,
	OPTION_DISTRIBUTION,
	OPTION_SKEW,
	OPTION_WRITE_RATIO,
	OPTION_MODES,
	OPTION_SAMPLE,
	OPTION_RESIZE,
	OPTION_RESIZE_MIN,
	OPTION_RESIZE_MAX,
	OPTION_RESIZER,
	OPTION_FLUSH,
	OPTION_DROP,
	OPTION_KILL,
	OPTION_STOP,
	OPTION_VALIDATE,
	OPTION_FAULTS,
	OPTION_DURATION,
	OPTION_SEED,
	OPTION_HIT_RATIO,
	OPTION_JSON,
	OPTION_QUIET,
	OPTION_PROGRESS,
	OPTION_HELP,
};

static const struct option known[] = {
	{"processes", required_argument, NULL, OPTION_PROCESSES},
	{"threads", required_argument, NULL, OPTION_THREADS},
	{"page-size", required_argument, NULL, OPTION_PAGE_SIZE},
	{"max", required_argument, NULL, OPTION_MAX},
	{"start", required_argument, NULL, OPTION_START},
	{"huge", required_argument, NULL, OPTION_HUGE},
	{"files", required_argument, NULL, OPTION_FILES},
	{"pages", required_argument, NULL, OPTION_PAGES},
	{"storage", required_argument, NULL, OPTION_STORAGE},
	{"directory", required_argument, NULL, OPTION_DIRECTORY},
	{"direct", no_argument, NULL, OPTION_DIRECT},
	{"distribution", required_argument, NULL, OPTION_DISTRIBUTION},
	{"skew", required_argument, NULL, OPTION_SKEW},
	{"write-ratio", required_argument, NULL, OPTION_WRITE_RATIO},
	{"modes", required_argument, NULL, OPTION_MODES},
	{"sample", required_argument, NULL, OPTION_SAMPLE},
	{"resize-interval", required_argument, NULL, OPTION_RESIZE},
	{"resize-min", required_argument, NULL, OPTION_RESIZE_MIN},
	{"resize-max", required_argument, NULL, OPTION_RESIZE_MAX},
	{"resizer", required_argument, NULL, OPTION_RESIZER},
	{"flush-interval", required_argument, NULL, OPTION_FLUSH},
	{"drop-interval", required_argument, NULL, OPTION_DROP},
	{"kill-interval", required_argument, NULL, OPTION_KILL},
	{"stop-interval", required_argument, NULL, OPTION_STOP},
	{"validate-every", required_argument, NULL, OPTION_VALIDATE},
	{"faults", required_argument, NULL, OPTION_FAULTS},
	{"duration", required_argument, NULL, OPTION_DURATION},
	{"seed", required_argument, NULL, OPTION_SEED},
	{"hit-ratio", no_argument, NULL, OPTION_HIT_RATIO},
	{"json", required_argument, NULL, OPTION_JSON},
	{"quiet", no_argument, NULL, OPTION_QUIET},
	{"progress", no_argument, NULL, OPTION_PROGRESS},
	{"help", no_argument, NULL, OPTION_HELP},
	{NULL, 0, NULL, 0},
};

static const char *const distribution_names[] = {
	[KEY_UNIFORM] = "uniform", [KEY_ZIPF] = "zipf", [KEY_SCAN] = "scan", [KEY_MIX] = "mix"};
static const char *const huge_names[] = {
	[TIDE_HUGE_OFF] = "off", [TIDE_HUGE_TRY] = "try", [TIDE_HUGE_ON] = "on"};
static const char *const storage_names[] = {"file", "memory"};
static const char *const resizer_names[] = {"process", "thread"};
static const char *const mode_names[] = {[TIDE_FIX_PIN] = "pin",
					 [TIDE_FIX_READ] = "read",
					 [TIDE_FIX_WRITE] = "write",
					 [TIDE_FIX_NEW] = "new"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *options_distribution_name(enum key_distribution distribution)
{
	return distribution_names[distribution];
}

/* Which of @names; -1 = none */
static int which(const char *text, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(text, names[i]) == 0)
			return (int)i;
	return -1;
}

/* 1, or 0 when @text is none of @names */
static int choose(const char *text, const char *const *names, size_t n, int *out)
{
	*out = which(text, names, n);
	return *out >= 0;
}

static int number32(const char *text, uint64_t low, uint64_t high, uint32_t *out)
{
	uint64_t number;

	if (!quantity_number(text, low, high, &number))
		return 0;
	*out = (uint32_t)number;
	return 1;
}

/* "pin=1,write=2": modes that are not named have no weight. */
static int read_modes(const char *text, uint32_t weights[OPTIONS_MODES])
{
	char copy[128];
	char *rest = copy;
	char *item;

	if (strlen(text) >= sizeof(copy))
		return 0;
	memcpy(copy, text, strlen(text) + 1);
	memset(weights, 0, OPTIONS_MODES * sizeof(weights[0]));
	while ((item = strsep(&rest, ",")) != NULL) {
		char *value = strchr(item, '=');
		int mode;

		if (!value)
			return 0;
		*value++ = '\0';
		if (!choose(item, mode_names, COUNT(mode_names), &mode) ||
		    !number32(value, 0, 1000000, &weights[mode]))
			return 0;
	}
	return 1;
}

static int read_load(struct options *o, int option, const char *text)
{
	int choice;

	switch (option) {
	case OPTION_DISTRIBUTION:
		if (!choose(text, distribution_names, COUNT(distribution_names), &choice))
			return 0;
		o->distribution = (enum key_distribution)choice;
		return 1;
	case OPTION_SKEW:
		return quantity_decimal(text, 1e-6, 5, &o->skew);
	case OPTION_WRITE_RATIO:
		return quantity_decimal(text, 0, 1, &o->write_ratio);
	case OPTION_MODES:
		return read_modes(text, o->mode_weight);
	case OPTION_SAMPLE:
		return number32(text, 0, 65536, &o->sample_words);
	case OPTION_STORAGE:
		return choose(text, storage_names, COUNT(storage_names), &o->memory_storage);
	case OPTION_HUGE:
		if (!choose(text, huge_names, COUNT(huge_names), &choice))
			return 0;
		o->huge = (enum tide_huge_policy)choice;
		return 1;
	default:
		return 0;
	}
}

static int read_size(struct options *o, int option, const char *text)
{
	uint64_t bytes;

	switch (option) {
	case OPTION_PAGE_SIZE:
		if (!quantity_bytes(text, &bytes) || bytes < 4096 || bytes > 65536 ||
		    (bytes & (bytes - 1)) != 0)
			return 0;
		o->page_bytes = (uint32_t)bytes;
		return 1;
	case OPTION_MAX:
		return quantity_bytes(text, &o->max_bytes) && o->max_bytes > 0;
	case OPTION_START:
		return quantity_bytes(text, &o->start_bytes) && o->start_bytes > 0;
	case OPTION_FILES:
		return quantity_number(text, 1, 1024, &o->files);
	case OPTION_PAGES:
		return quantity_number(text, 1, UINT32_MAX, &o->pages);
	default:
		return read_load(o, option, text);
	}
}

static int read_torment(struct options *o, int option, const char *text)
{
	switch (option) {
	case OPTION_RESIZE:
		return quantity_time(text, &o->resize_ns);
	case OPTION_RESIZE_MIN:
		return number32(text, 1, 100, &o->resize_min_percent);
	case OPTION_RESIZE_MAX:
		return number32(text, 1, 100, &o->resize_max_percent);
	case OPTION_RESIZER:
		return choose(text, resizer_names, COUNT(resizer_names), &o->resizer_thread);
	case OPTION_FLUSH:
		return quantity_time(text, &o->flush_ns);
	case OPTION_DROP:
		return quantity_time(text, &o->drop_ns);
	case OPTION_KILL:
		return quantity_time(text, &o->kill_ns);
	case OPTION_STOP:
		return quantity_time(text, &o->stop_ns);
	case OPTION_VALIDATE:
		return quantity_time(text, &o->validate_ns);
	case OPTION_FAULTS:
		return number32(text, 0, 150000, &o->faults_per_million);
	default:
		return read_size(o, option, text);
	}
}

/* 1, or 0 when @text is no value of @option */
static int read_option(struct options *o, int option, const char *text)
{
	switch (option) {
	case OPTION_PROCESSES:
		return number32(text, 1, 256, &o->processes);
	case OPTION_THREADS:
		return number32(text, 1, 256, &o->threads);
	case OPTION_DIRECTORY:
		o->directory = text;
		return *text != '\0';
	case OPTION_DIRECT:
		return o->direct = 1;
	case OPTION_DURATION:
		return quantity_time(text, &o->duration_ns) && o->duration_ns > 0;
	case OPTION_SEED:
		return quantity_number(text, 0, UINT64_MAX, &o->seed);
	case OPTION_HIT_RATIO:
		return o->hit_ratio = 1;
	case OPTION_JSON:
		o->json = text;
		return *text != '\0';
	case OPTION_QUIET:
		return o->quiet = 1;
	case OPTION_PROGRESS:
		return o->progress = 1;
	default:
		return read_torment(o, option, text);
	}
}

static int refuse(const char *why)
{
	(void)fprintf(stderr, "tidestress: %s\nTry tidestress --help.\n", why);
	return EXIT_BAD_USAGE;
}

static void set_defaults(struct options *o)
{
	*o = (struct options){
		.processes = 2,
		.threads = 4,
		.page_bytes = 8192,
		.max_bytes = UINT64_C(64) << 20,
		.files = 4,
		.distribution = KEY_MIX,
		.skew = 0.99,
		.write_ratio = 0.3,
		.mode_weight = {1, 4, 9, 1},
		.resize_ns = 100000000,
		.resize_min_percent = 5,
		.resize_max_percent = 100,
		.flush_ns = 50000000,
		.drop_ns = 1000000000,
		.kill_ns = 1000000000,
		.stop_ns = 2000000000,
		.validate_ns = UINT64_C(5000000000),
		.duration_ns = UINT64_C(10000000000),
		.huge = TIDE_HUGE_OFF,
	};
}

/* What follows from other options; -1, or the exit code when they contradict each other. */
static int derive(struct options *o)
{
	const uint32_t *weight = o->mode_weight;

	if (o->start_bytes == 0)
		o->start_bytes = o->max_bytes / 2;
	if (o->pages == 0)
		o->pages = 2 * o->max_bytes / o->page_bytes / o->files + 1;
	if (o->start_bytes > o->max_bytes)
		return refuse("--start is more than --max");
	if (o->max_bytes < UINT64_C(16) * o->page_bytes)
		return refuse("--max holds fewer than 16 pages");
	if (o->resize_min_percent > o->resize_max_percent)
		return refuse("--resize-min is more than --resize-max");
	if (o->resizer_thread && options_participants(o) == 1)
		return refuse("--resizer thread leaves nobody to use the pool");
	if (options_participants(o) > OPTIONS_PARTICIPANTS_MAX)
		return refuse("more than 1024 threads in all processes together");
	if (options_footprint(o) >= UINT64_C(1) << 22)
		return refuse("--files times --pages is 4,194,304 or more");
	if (o->write_ratio < 1 && weight[TIDE_FIX_PIN] + weight[TIDE_FIX_READ] == 0)
		return refuse("--modes leaves nothing to read with: give pin or read a weight");
	if (o->write_ratio > 0 && weight[TIDE_FIX_WRITE] + weight[TIDE_FIX_NEW] == 0)
		return refuse("--modes leaves nothing to write with: give write or new a weight");
	return -1;
}

/* The command line itself, and the seed when it was not in there. */
static void remember(struct options *o, int argc, char **argv, int seeded)
{
	size_t used = 0;

	for (int i = 0; i < argc && used < sizeof(o->command); i++)
		used += (size_t)snprintf(o->command + used, sizeof(o->command) - used, "%s%s",
					 i ? " " : "", argv[i]);
	if (!seeded && used < sizeof(o->command))
		(void)snprintf(o->command + used, sizeof(o->command) - used, " --seed %" PRIu64,
			       o->seed);
}

int options_parse(struct options *options, int argc, char **argv)
{
	int seeded = 0, index = 0;
	int option;
	char why[256];

	set_defaults(options);
	while ((option = getopt_long(argc, argv, "", known, &index)) != -1) {
		if (option == '?')
			return refuse("unknown option, or a value is missing");
		if (option == OPTION_HELP) {
			(void)fputs(help, stdout);
			return 0;
		}
		seeded |= option == OPTION_SEED;
		if (!read_option(options, option, optarg)) {
			(void)snprintf(why, sizeof(why), "--%s cannot be %s", known[index].name,
				       optarg ? optarg : "");
			return refuse(why);
		}
	}
	if (optind < argc)
		return refuse("there are no arguments beside options");
	if (!seeded) {
		if (getrandom(&options->seed, sizeof(options->seed), 0) < 0)
			return refuse("no random seed can be had, give one with --seed");
		options->seed >>= 32; /* short enough to be typed */
	}
	remember(options, argc, argv, seeded);
	return derive(options);
}
