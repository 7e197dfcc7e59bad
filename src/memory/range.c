/* SPDX-License-Identifier: PostgreSQL */
/* range.c - lists of byte ranges, walked in pieces without memory of their own. */
#include "memory/range.h"

#include <inttypes.h>

#include "memory/fact.h"

struct tide_range_walk tide_range_walk(const struct tide_range *ranges, size_t n_ranges)
{
	return (struct tide_range_walk){.ranges = ranges, .n_ranges = n_ranges};
}

int tide_range_next(struct tide_range_walk *walk, uint64_t piece_bytes, struct tide_range *piece)
{
	struct tide_range *rest = &walk->rest;

	if (rest->bytes == 0) {
		if (walk->next == walk->n_ranges)
			return 0;
		*rest = walk->ranges[walk->next++];
		while (walk->next < walk->n_ranges &&
		       walk->ranges[walk->next].offset == rest->offset + rest->bytes)
			rest->bytes += walk->ranges[walk->next++].bytes;
	}
	piece->offset = rest->offset;
	piece->bytes = rest->bytes < piece_bytes ? rest->bytes : piece_bytes;
	rest->offset += piece->bytes;
	rest->bytes -= piece->bytes;
	return 1;
}

uint64_t tide_range_total(const struct tide_range *ranges, size_t n_ranges)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n_ranges; i++)
		total += ranges[i].bytes;
	return total;
}

int tide_range_check(const struct tide_range *ranges, size_t n_ranges, uint64_t page_bytes,
		     uint64_t max_bytes, struct tide_reason *why)
{
	if (n_ranges > 0 && !ranges)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0, "no ranges were given");
	for (size_t i = 0; i < n_ranges; i++) {
		const struct tide_range *r = &ranges[i];
		const char *fault = NULL;

		if (r->bytes == 0)
			fault = "is empty";
		else if (r->offset % page_bytes != 0 || r->bytes % page_bytes != 0)
			fault = "is not made of whole backing pages";
		else if (r->offset > max_bytes || r->bytes > max_bytes - r->offset)
			fault = "reaches beyond the region";
		else if (i > 0 && r->offset < ranges[i - 1].offset + ranges[i - 1].bytes &&
			 ranges[i - 1].offset < r->offset + r->bytes)
			fault = "overlaps the one before it";
		if (!fault)
			continue;
		tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				"range %zu (offset %" PRIu64 ", %" PRIu64 " bytes) %s", i,
				r->offset, r->bytes, fault);
		tide_reason_hint(why, "the backing page is %s, the region has %s",
				 tide_fact_size(page_bytes).text, tide_fact_size(max_bytes).text);
		return TIDE_BAD_REQUEST;
	}
	return TIDE_OK;
}
