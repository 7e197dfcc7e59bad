/* SPDX-License-Identifier: PostgreSQL */
/* options.h - what the command line asks for. */
#ifndef TIDESTRESS_OPTIONS_H
#define TIDESTRESS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <tidepool/pool.h>

#include "key.h"

#define EXIT_FAULT_FOUND 1
#define EXIT_BAD_USAGE 2
#define EXIT_CANNOT_RUN 77

#define OPTIONS_PARTICIPANTS_MAX 1024u
#define OPTIONS_MODES 4 /* by enum tide_fix_mode */

/* Times in nanoseconds; an interval of 0 means never. */
struct options {
	uint32_t processes;
	uint32_t threads; /* of each process */
	uint32_t page_bytes;
	uint64_t max_bytes, start_bytes;
	uint64_t files, pages; /* pages of each file */
	enum key_distribution distribution;
	double skew;
	double write_ratio;
	uint32_t mode_weight[OPTIONS_MODES];
	uint32_t sample_words;
	uint64_t resize_ns, flush_ns, drop_ns, kill_ns, stop_ns, validate_ns;
	uint32_t resize_min_percent, resize_max_percent;
	int resizer_thread;	     /* the first worker resizes, instead of a process */
	uint32_t faults_per_million; /* of each kind */
	int memory_storage;
	int direct;
	const char *directory;
	enum tide_huge_policy huge;
	uint64_t duration_ns;
	uint64_t seed;
	const char *json;
	int quiet;
	int progress; /* 1 = also when stdout is no terminal */
	int hit_ratio;
	char command[2048]; /* to run the same again */
};

/*
 * Read the command line. Return: -1 to go on, otherwise the exit code (--help, or bad usage, which
 * has been printed).
 */
int options_parse(struct options *options, int argc, char **argv);

const char *options_distribution_name(enum key_distribution distribution);

static inline uint32_t options_participants(const struct options *options)
{
	return options->processes * options->threads;
}

static inline uint64_t options_footprint(const struct options *options)
{
	return options->files * options->pages;
}

static inline int options_resizer_process(const struct options *options)
{
	return options->resize_ns > 0 && !options->resizer_thread;
}

/* Page number @page of the footprint. */
static inline struct tide_page_id options_page_id(const struct options *options, uint64_t page)
{
	return (struct tide_page_id){.file = page / options->pages, .page = page % options->pages};
}

#endif
