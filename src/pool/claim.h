/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/claim.h - buffers claimed together, so that one barrier and one look at the pins serve all.
 */
#ifndef POOL_CLAIM_H
#define POOL_CLAIM_H

#include "pool/session.h"

#define CLAIM_BATCH 32u

struct claims {
	uint32_t n;
	uint32_t buffer[CLAIM_BATCH];
	uint32_t place[CLAIM_BATCH]; /* in the slot */
	uint64_t hash[CLAIM_BATCH];  /* of the page; set by claim_settle() */
};

/**
 * claim_try() - make @buffer, seen in @state, our own: EVICT; inside a read section
 *
 * The state is one of a resident or torn page without owner. Return: 1, or 0 when it has changed.
 */
int claim_try(struct tide_session *session, struct claims *claims, uint32_t buffer, uint64_t state);

/**
 * claim_settle() - which of the claimed pages does somebody have fixed? Those are given back.
 *
 * What is left in @claims cannot be fixed by anybody until it is released: the caller evicts or moves
 * it, and calls claim_end() for each.
 *
 * Return: number of buffers given back.
 */
uint32_t claim_settle(struct tide_session *session, struct claims *claims);

/** claim_end() - buffer i has been released */
void claim_end(struct tide_session *session, const struct claims *claims, uint32_t i);

/**
 * claim_forget_page() - the page of a settled claim leaves the pool: table, counts, ghost
 *
 * The buffer is still ours.
 */
void claim_forget_page(struct tide_session *session, uint32_t buffer, uint64_t hash, int ghost);

#endif /* POOL_CLAIM_H */
