/* SPDX-License-Identifier: PostgreSQL */
/*
 * model.c - what every page may read as.
 *
 * All accesses are sequentially consistent: the order in which an intent, the count of losses and a
 * version become visible is what the model stands on. Verifying a page costs much more.
 */
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define get(word) atomic_load_explicit(word, memory_order_seq_cst)
#define set(word, value) atomic_store_explicit(word, value, memory_order_seq_cst)

/* An intent: bit 63 = drop, then 22 bits of number of pages, then 40 bits of first page. */
#define INTENT_DROP (UINT64_C(1) << 63)
#define INTENT_N_SHIFT 40
#define INTENT_FIRST_MASK ((UINT64_C(1) << INTENT_N_SHIFT) - 1)
_Static_assert(MODEL_PAGES_MAX < UINT64_C(1) << 22, "the number of pages fits an intent");

static uint64_t intent_make(uint64_t first, uint64_t n)
{
	return n << INTENT_N_SHIFT | first;
}

static uint64_t intent_first(uint64_t intent)
{
	return intent & INTENT_FIRST_MASK;
}

static uint64_t intent_n(uint64_t intent)
{
	return (intent & ~INTENT_DROP) >> INTENT_N_SHIFT;
}

int model_open(struct model *model, uint64_t n_pages, uint32_t n_slots)
{
	size_t page_bytes = n_pages * sizeof(struct model_page);
	size_t bytes = page_bytes + n_slots * sizeof(struct model_slot);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -ENOMEM;
	*model = (struct model){
		.n_pages = n_pages,
		.n_slots = n_slots,
		.pages = memory,
		.slots = (struct model_slot *)((char *)memory + page_bytes),
	};
	return 0;
}

void model_close(struct model *model)
{
	(void)munmap(model->pages, model->n_pages * sizeof(struct model_page) +
					   model->n_slots * sizeof(struct model_slot));
}

static void raise64(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t seen = get(word);

	while (seen < value &&
	       !atomic_compare_exchange_weak_explicit(word, &seen, value, memory_order_seq_cst,
						      memory_order_seq_cst))
		;
}

static void raise32(_Atomic uint32_t *word, uint32_t value)
{
	uint32_t seen = get(word);

	while (seen < value &&
	       !atomic_compare_exchange_weak_explicit(word, &seen, value, memory_order_seq_cst,
						      memory_order_seq_cst))
		;
}

/* The open loss @i of all slots' intents, or 0. */
static uint64_t open_loss(const struct model *model, uint32_t slot, uint32_t which)
{
	uint64_t intent = get(&model->slots[slot].intent[which]);

	return (intent & INTENT_DROP) || get(&model->slots[slot].doomed) ? intent : 0;
}

static int is_being_lost(const struct model *model, uint64_t page)
{
	for (uint32_t slot = 0; slot < model->n_slots; slot++)
		for (uint32_t which = 0; which < MODEL_INTENTS; which++) {
			uint64_t intent = open_loss(model, slot, which);

			if (page - intent_first(intent) < intent_n(intent))
				return 1;
		}
	return 0;
}

/* Open losses first: see model.h. */
static int may_be_lost(const struct model *model, uint64_t page)
{
	const struct model_page *p = &model->pages[page];

	return is_being_lost(model, page) || get(&p->losses) != get(&p->settled);
}

enum model_verdict model_read(struct model *model, uint64_t page, uint64_t version)
{
	struct model_page *p = &model->pages[page];
	uint32_t losses = get(&p->losses);
	uint64_t current = get(&p->current);

	if (version == current) {
		raise32(&p->settled, losses);
		return MODEL_GOOD;
	}
	if (version < get(&p->durable))
		return MODEL_LOST_DURABLE;
	if (version > current)
		return MODEL_FROM_NOWHERE;
	/*
	 * Whoever else has it fixed at this moment found the same, stores the same, and may have
	 * settled since we looked at current, which is stored first.
	 */
	if (!may_be_lost(model, page))
		return get(&p->current) == version ? MODEL_GOOD : MODEL_LOST_WRITE;
	set(&p->current, version);
	raise32(&p->settled, losses);
	return MODEL_FELL_BACK;
}

uint64_t model_begin_write(struct model *model, uint64_t page)
{
	return atomic_fetch_add_explicit(&model->pages[page].written, 1, memory_order_seq_cst) + 1;
}

void model_end_write(struct model *model, uint64_t page, uint64_t version)
{
	set(&model->pages[page].current, version);
}

void model_renew(struct model *model, uint64_t page)
{
	struct model_page *p = &model->pages[page];

	/* Renewed first: who was told "corrupt" before looks at the two in the other order. */
	atomic_fetch_add_explicit(&p->renewed, 1, memory_order_seq_cst);
	raise32(&p->settled, get(&p->losses));
}

void model_intend_write(struct model *model, uint32_t slot, uint32_t which, uint64_t page)
{
	set(&model->slots[slot].intent[which], intent_make(page, 1));
}

void model_withdraw(struct model *model, uint32_t slot, uint32_t which)
{
	set(&model->slots[slot].intent[which], 0);
}

void model_intend_drop(struct model *model, uint32_t slot, uint64_t first, uint64_t n)
{
	set(&model->slots[slot].intent[0], INTENT_DROP | intent_make(first, n));
}

static void count_losses(struct model *model, uint64_t intent)
{
	for (uint64_t i = 0; i < intent_n(intent); i++)
		atomic_fetch_add_explicit(&model->pages[intent_first(intent) + i].losses, 1,
					  memory_order_seq_cst);
}

void model_dropped(struct model *model, uint32_t slot)
{
	count_losses(model, get(&model->slots[slot].intent[0]));
	model_withdraw(model, slot, 0);
}

void model_doom(struct model *model, uint32_t slot)
{
	set(&model->slots[slot].doomed, 1);
}

void model_bury(struct model *model, uint32_t slot)
{
	for (uint32_t which = 0; which < MODEL_INTENTS; which++) {
		count_losses(model, get(&model->slots[slot].intent[which]));
		model_withdraw(model, slot, which);
	}
	set(&model->slots[slot].doomed, 0);
}

int model_may_be_corrupt(const struct model *model, uint64_t page, uint32_t renewed)
{
	const struct model_page *p = &model->pages[page];

	if (get(&p->torn) && may_be_lost(model, page))
		return 1;
	return get(&p->renewed) != renewed;
}

void model_describe(const struct model *model, uint64_t page, char *text, size_t text_bytes)
{
	const struct model_page *p = &model->pages[page];

	(void)snprintf(text, text_bytes,
		       "version begun %" PRIu64 ", current %" PRIu64 ", durable %" PRIu64
		       "; losses %" PRIu32 ", settled %" PRIu32 "%s, begun again %" PRIu32
		       "; %s in storage",
		       get(&p->written), get(&p->current), get(&p->durable), get(&p->losses),
		       get(&p->settled), is_being_lost(model, page) ? ", one open" : "",
		       get(&p->renewed), get(&p->torn) ? "may be torn" : "whole");
}

/* --- flush ------------------------------------------------------------------------------------ */

/* A page of a flush. @version: current when it began; 0 = nothing is claimed */
struct claim {
	uint64_t version;
	uint32_t losses;
};

struct model_flush {
	uint64_t first, n;
	struct claim claim[];
};

/* Claim nothing of pages that are being lost. */
static void exclude_open_losses(const struct model *model, struct model_flush *flush)
{
	for (uint32_t slot = 0; slot < model->n_slots; slot++)
		for (uint32_t which = 0; which < MODEL_INTENTS; which++) {
			uint64_t intent = open_loss(model, slot, which);
			uint64_t begin = intent_first(intent);
			uint64_t end = begin + intent_n(intent);

			for (uint64_t page = begin; page < end; page++)
				if (page - flush->first < flush->n)
					flush->claim[page - flush->first].version = 0;
		}
}

/*
 * Losses are looked for on both sides: one that was open or not settled when the flush began makes
 * current untrue already, one during the flush may have taken the page away before it was written.
 */
struct model_flush *model_flush_begin(const struct model *model, uint64_t first, uint64_t n)
{
	struct model_flush *flush = malloc(sizeof(*flush) + n * sizeof(struct claim));

	if (!flush)
		return NULL;
	flush->first = first;
	flush->n = n;
	for (uint64_t i = 0; i < n; i++)
		flush->claim[i] = (struct claim){.version = UINT64_MAX};
	exclude_open_losses(model, flush);
	for (uint64_t i = 0; i < n; i++) {
		const struct model_page *p = &model->pages[first + i];
		struct claim *claim = &flush->claim[i];

		claim->losses = get(&p->losses);
		if (claim->losses != get(&p->settled))
			claim->version = 0;
		else if (claim->version != 0)
			claim->version = get(&p->current);
	}
	return flush;
}

void model_flush_end(struct model *model, struct model_flush *flush)
{
	exclude_open_losses(model, flush);
	for (uint64_t i = 0; i < flush->n; i++) {
		struct model_page *p = &model->pages[flush->first + i];
		const struct claim *claim = &flush->claim[i];

		if (get(&p->losses) == claim->losses)
			raise64(&p->durable, claim->version);
	}
	free(flush);
}

void model_flush_abandon(struct model_flush *flush)
{
	free(flush);
}
