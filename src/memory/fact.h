/* SPDX-License-Identifier: PostgreSQL */
/* fact.h - small facts about the machine, read from text files that the kernel writes. */
#ifndef TIDE_MEMORY_FACT_H
#define TIDE_MEMORY_FACT_H

#include <tidepool/region.h>

/* Longest path and longest file that is looked at; what is longer counts as missing or is cut. */
#define TIDE_FACT_PATH_BYTES 1024
#define TIDE_FACT_TEXT_BYTES 16384

/* The roots of struct tide_machine with the normal places filled in; @machine may be NULL. */
struct tide_machine tide_fact_roots(const struct tide_machine *machine);

/* A path from parts; 0 or -ENAMETOOLONG. */
__attribute__((format(printf, 2, 3))) int tide_fact_path(char path[TIDE_FACT_PATH_BYTES],
							 const char *format, ...);

/* The number a file begins with; -errno, or -EINVAL when it begins with none ("max"). */
int tide_fact_number(const char *path, uint64_t *value);

/* The number behind @key at the start of a line of @text; 0 or -ENOENT. */
int tide_fact_field(const char *text, const char *key, uint64_t *value);

/* A size in the largest unit that is exact: "4 GiB", "24117248 kB", "1 byte". */
struct tide_fact_size {
	char text[32];
};
struct tide_fact_size tide_fact_size(uint64_t bytes);

#endif /* TIDE_MEMORY_FACT_H */
