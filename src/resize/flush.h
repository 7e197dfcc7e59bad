/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/flush.h - token bucket that limits how fast a drain writes dirty pages.
 *
 * The engine hears how many pages a drain step wrote, not how long a page is. A step that wrote
 * anything is therefore charged with all it was allowed to write, and never allowed more than a
 * portion: the limit is kept whatever the page size, and at worst not used to the full.
 */
#ifndef RESIZE_FLUSH_H
#define RESIZE_FLUSH_H

#include <stdint.h>

struct flush_bucket {
	uint64_t bytes_per_s; /* 0 = no limit */
	uint64_t tokens;      /* bytes that may be written now */
	uint64_t filled_ns;   /* when tokens were last added */
};

void flush_open(struct flush_bucket *bucket, uint64_t bytes_per_s, uint64_t now_ns);

/** flush_allowance() - bytes that the next step may write; 0 = none yet; UINT64_MAX = no limit */
uint64_t flush_allowance(struct flush_bucket *bucket, uint64_t now_ns);

/** flush_charge() - a step that was allowed @bytes wrote some */
void flush_charge(struct flush_bucket *bucket, uint64_t bytes);

/** flush_wait() - time until the next allowance is more than nothing */
uint64_t flush_wait(const struct flush_bucket *bucket);

#endif /* RESIZE_FLUSH_H */
