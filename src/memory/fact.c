/* SPDX-License-Identifier: PostgreSQL */
/* fact.c - small facts about the machine, read from text files that the kernel writes. */
#include "memory/fact.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/prim.h"

struct tide_machine tide_fact_roots(const struct tide_machine *machine)
{
	struct tide_machine roots = {"/sys/fs/cgroup", "/proc", "/sys"};

	if (machine && machine->cgroup_root)
		roots.cgroup_root = machine->cgroup_root;
	if (machine && machine->proc_root)
		roots.proc_root = machine->proc_root;
	if (machine && machine->sys_root)
		roots.sys_root = machine->sys_root;
	return roots;
}

int tide_fact_path(char path[TIDE_FACT_PATH_BYTES], const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(path, TIDE_FACT_PATH_BYTES, format, args);
	va_end(args);
	return length < 0 || length >= TIDE_FACT_PATH_BYTES ? -ENAMETOOLONG : 0;
}

static int parse_number(const char *text, uint64_t *value)
{
	char *end;

	while (*text == ' ' || *text == '\t')
		text++;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	*value = strtoull(text, &end, 10); /* what is too large saturates, which is no limit */
	return 0;
}

int tide_fact_number(const char *path, uint64_t *value)
{
	char text[64];
	int rc;

	rc = tide_prim_read(path, text, sizeof(text));
	return rc ? rc : parse_number(text, value);
}

int tide_fact_field(const char *text, const char *key, uint64_t *value)
{
	size_t length = strlen(key);
	const char *line = text;

	while (line) {
		if (strncmp(line, key, length) == 0 && parse_number(line + length, value) == 0)
			return 0;
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return -ENOENT;
}

struct tide_fact_size tide_fact_size(uint64_t bytes)
{
	static const char *const units[] = {"bytes", "kB", "MiB", "GiB", "TiB"};
	struct tide_fact_size size;
	unsigned unit = 0;

	while (bytes != 0 && bytes % 1024 == 0 && unit < 4) {
		bytes /= 1024;
		unit++;
	}
	snprintf(size.text, sizeof(size.text), "%" PRIu64 " %s", bytes,
		 bytes == 1 && unit == 0 ? "byte" : units[unit]);
	return size;
}
