/* SPDX-License-Identifier: PostgreSQL */
/* pool/pages.h - a file, or some pages of it, or all files: what flush and drop are asked for. */
#ifndef POOL_PAGES_H
#define POOL_PAGES_H

#include <tidepool/pool.h>

struct pages {
	uint64_t file, first, n;
};

static inline int pages_hold(const struct pages *pages, const struct tide_page_id *id)
{
	if (pages->file != TIDE_ALL_FILES && pages->file != id->file)
		return 0;
	return id->page >= pages->first &&
	       (pages->n == TIDE_ALL_PAGES || id->page - pages->first < pages->n);
}

/* Is it cheaper to look each of them up than to look at all of @n_buffers? */
static inline int pages_are_few(const struct pages *pages, uint32_t n_buffers)
{
	return pages->file != TIDE_ALL_FILES && pages->n <= n_buffers / 16;
}

#endif /* POOL_PAGES_H */
