/* SPDX-License-Identifier: PostgreSQL */
/* page.c - pages whose every byte follows from file, page and version. */
#include "page.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include <xxhash.h>

#define MAGIC UINT64_C(0x7473657274656469)

/* The first three are read by participants that only pin, while somebody else writes: atomic. */
struct head {
	_Atomic uint64_t magic;
	_Atomic uint64_t file;
	_Atomic uint64_t page;
	uint64_t version;
	uint64_t writer;
	uint64_t checksum;
	uint64_t storage_checksum;
	uint64_t unused;
};

#define HEAD_WORDS (sizeof(struct head) / sizeof(uint64_t))
_Static_assert(offsetof(struct head, storage_checksum) == PAGE_STORAGE_CHECKSUM, "layout");
_Static_assert(sizeof(struct head) == 64, "layout");

static uint64_t content_key(const struct tide_page_id *id, uint64_t version)
{
	return random_mix(random_mix(random_mix(id->file + 1) + id->page) + version);
}

static inline uint64_t content_word(uint64_t key, uint64_t index)
{
	uint64_t x = key + index * UINT64_C(0x9e3779b97f4a7c15);

	x ^= x >> 32;
	return x * UINT64_C(0xd6e8feb86659fd93);
}

/* Over everything but the two checksums. */
static uint64_t checksum_of(const struct head *head, uint32_t page_bytes)
{
	uint64_t content =
		XXH3_64bits((const char *)head + sizeof(*head), page_bytes - sizeof(*head));
	uint64_t known[] = {MAGIC,	  head->file,	head->page, head->version,
			    head->writer, head->unused, content};

	return XXH3_64bits(known, sizeof(known));
}

void page_write(void *memory, uint32_t page_bytes, const struct tide_page_id *id, uint64_t version,
		uint64_t writer)
{
	struct head *head = memory;
	uint64_t *words = memory;
	uint64_t key = content_key(id, version);

	atomic_store_explicit(&head->magic, MAGIC, memory_order_relaxed);
	atomic_store_explicit(&head->file, id->file, memory_order_relaxed);
	atomic_store_explicit(&head->page, id->page, memory_order_relaxed);
	head->version = version;
	head->writer = writer;
	head->unused = key;
	for (uint64_t i = HEAD_WORDS; i < page_bytes / sizeof(uint64_t); i++)
		words[i] = content_word(key, i);
	head->checksum = checksum_of(head, page_bytes);
}

void page_write_half(void *memory, uint32_t page_bytes, uint64_t version, struct random *random)
{
	struct head *head = memory;
	uint64_t *words = memory;
	uint64_t n_words = page_bytes / sizeof(uint64_t);

	head->version = version;
	for (uint64_t i = HEAD_WORDS + random_below(random, n_words - HEAD_WORDS); i < n_words; i++)
		words[i] = random_next(random);
}

static enum page_verdict wrong(struct page_seen *seen, enum page_verdict verdict, size_t offset,
			       uint64_t expected, uint64_t found)
{
	seen->verdict = verdict;
	seen->offset = (uint32_t)offset;
	seen->expected = expected;
	seen->found = found;
	return verdict;
}

static enum page_verdict verify_zero(const uint64_t *words, uint32_t page_bytes,
				     struct page_seen *seen)
{
	for (size_t i = 0; i < page_bytes / sizeof(uint64_t); i++)
		if (words[i] != 0 && i != PAGE_STORAGE_CHECKSUM / sizeof(uint64_t))
			return wrong(seen, PAGE_OF_NOBODY, i * sizeof(uint64_t), 0, words[i]);
	return seen->verdict = PAGE_ZERO;
}

static enum page_verdict verify_word(const uint64_t *words, uint64_t key, uint64_t i,
				     struct page_seen *seen)
{
	uint64_t expected = content_word(key, i);

	if (words[i] == expected)
		return PAGE_GOOD;
	return wrong(seen, PAGE_TORN, i * sizeof(uint64_t), expected, words[i]);
}

static enum page_verdict verify_content(const uint64_t *words, uint32_t page_bytes, uint64_t key,
					struct page_seen *seen)
{
	const struct head *head = (const struct head *)words;
	uint64_t sum;

	for (uint64_t i = HEAD_WORDS; i < page_bytes / sizeof(uint64_t); i++)
		if (verify_word(words, key, i, seen) != PAGE_GOOD)
			return PAGE_TORN;
	sum = checksum_of(head, page_bytes);
	if (sum != head->checksum)
		return wrong(seen, PAGE_MISSUMMED, offsetof(struct head, checksum), sum,
			     head->checksum);
	return PAGE_GOOD;
}

static enum page_verdict verify_head(const struct head *head, const struct tide_page_id *id,
				     uint64_t key, struct page_seen *seen)
{
	if (seen->id.file != id->file)
		return wrong(seen, PAGE_OF_ANOTHER, offsetof(struct head, file), id->file,
			     seen->id.file);
	if (seen->id.page != id->page)
		return wrong(seen, PAGE_OF_ANOTHER, offsetof(struct head, page), id->page,
			     seen->id.page);
	if (seen->version == 0 || head->unused != key)
		return wrong(seen, PAGE_TORN, offsetof(struct head, unused), key, head->unused);
	return PAGE_GOOD;
}

enum page_verdict page_verify(const void *memory, uint32_t page_bytes,
			      const struct tide_page_id *id, uint32_t sample_words,
			      struct random *random, struct page_seen *seen)
{
	const struct head *head = memory;
	const uint64_t *words = memory;
	uint64_t magic = atomic_load_explicit(&head->magic, memory_order_relaxed);

	*seen = (struct page_seen){
		.verdict = PAGE_GOOD,
		.version = head->version,
		.writer = head->writer,
		.id = {.file = atomic_load_explicit(&head->file, memory_order_relaxed),
		       .page = atomic_load_explicit(&head->page, memory_order_relaxed)},
	};
	if (magic == 0)
		return verify_zero(words, page_bytes, seen);
	if (magic != MAGIC)
		return wrong(seen, PAGE_OF_NOBODY, 0, MAGIC, magic);

	uint64_t key = content_key(id, seen->version);

	if (verify_head(head, id, key, seen) != PAGE_GOOD)
		return seen->verdict;
	if (sample_words == 0)
		return verify_content(words, page_bytes, key, seen);
	for (uint32_t n = 0; n < sample_words; n++) {
		uint64_t i = HEAD_WORDS + random_below(random, page_bytes / 8 - HEAD_WORDS);

		if (verify_word(words, key, i, seen) != PAGE_GOOD)
			return PAGE_TORN;
	}
	return PAGE_GOOD;
}

int page_is(const void *memory, const struct tide_page_id *id)
{
	const struct head *head = memory;
	uint64_t magic = atomic_load_explicit(&head->magic, memory_order_relaxed);
	uint64_t file = atomic_load_explicit(&head->file, memory_order_relaxed);
	uint64_t page = atomic_load_explicit(&head->page, memory_order_relaxed);

	return (magic == 0 || magic == MAGIC) && (file == 0 || file == id->file) &&
	       (page == 0 || page == id->page);
}

void page_describe(const struct page_seen *seen, char *text, size_t text_bytes)
{
	static const char *const words[] = {
		[PAGE_GOOD] = "is good",
		[PAGE_ZERO] = "is zeros",
		[PAGE_OF_NOBODY] = "is neither a page nor zeros",
		[PAGE_OF_ANOTHER] = "is another page",
		[PAGE_TORN] = "is torn",
		[PAGE_MISSUMMED] = "has a wrong checksum",
	};
	int n = snprintf(text, text_bytes,
			 "%s (says file %" PRIu64 " page %" PRIu64 " version %" PRIu64
			 " writer %#" PRIx64 ")",
			 words[seen->verdict], seen->id.file, seen->id.page, seen->version,
			 seen->writer);

	if (seen->verdict > PAGE_ZERO && n > 0 && (size_t)n < text_bytes)
		(void)snprintf(text + n, text_bytes - (size_t)n,
			       ": at byte %" PRIu32 " expected %#" PRIx64 ", found %#" PRIx64,
			       seen->offset, seen->expected, seen->found);
}
