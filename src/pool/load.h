/* SPDX-License-Identifier: PostgreSQL */
/* pool/load.h - bringing a page into the pool. */
#ifndef POOL_LOAD_H
#define POOL_LOAD_H

#include "pool/session.h"

/* A page on its way in: a buffer of ours that the lookup table knows already. */
struct load {
	struct tide_page_id id;
	uint64_t hash;
	uint32_t buffer;
	uint32_t place; /* of the claim */
	uint32_t stamp; /* of its insertion */
	int ghost;	/* it was dropped not long ago */
};

/**
 * load_begin() - have a buffer for the page and enter it in the table
 *
 * Not inside a read section. Return: 1; 0 when the page is in the table already; a negative code.
 */
int load_begin(struct tide_session *session, const struct tide_page_id *id, uint64_t hash,
	       struct load *load, struct tide_reason *why);

/** load_end() - the page has been read: resident, with flags @set (STATE_X: it stays ours) */
void load_end(struct tide_session *session, const struct load *load, uint64_t set);

/** load_fail() - it could not be: as if it had never begun */
void load_fail(struct tide_session *session, const struct load *load);

#endif /* POOL_LOAD_H */
