/* SPDX-License-Identifier: PostgreSQL */
/* page.h - pages whose every byte follows from file, page and version. */
#ifndef TIDESTRESS_PAGE_H
#define TIDESTRESS_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include <tidepool/pool.h>

#include "random.h"

/* Where the storage keeps its own checksum; nothing here looks at it. */
#define PAGE_STORAGE_CHECKSUM 48u

enum page_verdict {
	PAGE_GOOD,
	PAGE_ZERO,	 /* never written: version 0 */
	PAGE_OF_NOBODY,	 /* no magic number, and not zeros */
	PAGE_OF_ANOTHER, /* file or page number is another one's */
	PAGE_TORN,	 /* content is not that of its version */
	PAGE_MISSUMMED,	 /* content is right, the checksum is not */
};

/* What was found. @offset, @expected, @found: the first word that is wrong. */
struct page_seen {
	enum page_verdict verdict;
	uint64_t version;
	uint64_t writer;
	uint32_t offset;
	uint64_t expected, found;
	struct tide_page_id id; /* that the page says it has */
};

/* Fill @memory with version @version of page @id; @version is not 0. */
void page_write(void *memory, uint32_t page_bytes, const struct tide_page_id *id, uint64_t version,
		uint64_t writer);

/*
 * What a writer leaves that dies in the middle: the head says @version, and of the content a part
 * that @random picks is not that of any version.
 */
void page_write_half(void *memory, uint32_t page_bytes, uint64_t version, struct random *random);

/*
 * Verify the page @id in @memory, which nobody changes meanwhile: every byte, or with @sample_words
 * not 0 the head and so many words of the content, picked by @random.
 */
enum page_verdict page_verify(const void *memory, uint32_t page_bytes,
			      const struct tide_page_id *id, uint32_t sample_words,
			      struct random *random, struct page_seen *seen);

/*
 * Verify what cannot change while somebody writes to the page: that it is @id, or has never been
 * written. Returns 1 when it is.
 */
int page_is(const void *memory, const struct tide_page_id *id);

/* Put what is wrong into words. */
void page_describe(const struct page_seen *seen, char *text, size_t text_bytes);

#endif
