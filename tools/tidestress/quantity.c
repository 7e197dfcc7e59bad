/* SPDX-License-Identifier: PostgreSQL */
/* quantity.c - numbers with units, as people write them. */
#include "quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct unit {
	const char *name;
	double factor;
};

static const struct unit byte_units[] = {
	{"", 1},	{"B", 1},	{"kB", 0x1p10}, {"MB", 0x1p20},
	{"GB", 0x1p30}, {"TB", 0x1p40}, {NULL, 0},
};

static const struct unit time_units[] = {
	{"", 1e9},   {"us", 1e3},   {"ms", 1e6},   {"s", 1e9},
	{"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {NULL, 0},
};

int quantity_number(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return 0;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *out >= low && *out <= high;
}

/* Hexadecimal, infinities and signs are what strtod takes and people do not mean. */
static int read_decimal(const char *text, double *out, const char **rest)
{
	char *end;

	if (!isdigit((unsigned char)*text) || text[1] == 'x' || text[1] == 'X')
		return 0;
	errno = 0;
	*out = strtod(text, &end);
	*rest = end;
	return errno == 0;
}

int quantity_decimal(const char *text, double low, double high, double *out)
{
	const char *rest;

	return read_decimal(text, out, &rest) && *rest == '\0' && *out >= low && *out <= high;
}

static int with_unit(const char *text, const struct unit *units, uint64_t *out)
{
	const char *rest;
	double number;

	if (!read_decimal(text, &number, &rest))
		return 0;
	while (*rest == ' ')
		rest++;
	for (const struct unit *unit = units; unit->name; unit++)
		if (strcasecmp(rest, unit->name) == 0 && number * unit->factor < 0x1p62) {
			*out = (uint64_t)llround(number * unit->factor);
			return 1;
		}
	return 0;
}

int quantity_bytes(const char *text, uint64_t *bytes)
{
	return with_unit(text, byte_units, bytes);
}

int quantity_time(const char *text, uint64_t *ns)
{
	return with_unit(text, time_units, ns);
}

void quantity_bytes_text(uint64_t bytes, char *text, size_t text_bytes)
{
	static const char *const names[] = {"B", "kB", "MB", "GB", "TB"};
	double number = (double)bytes;
	size_t unit = 0;

	while (number >= 1024 && unit < sizeof(names) / sizeof(names[0]) - 1) {
		number /= 1024;
		unit++;
	}
	(void)snprintf(text, text_bytes, "%.*f %s", number < 10 && unit > 0 ? 1 : 0, number,
		       names[unit]);
}
