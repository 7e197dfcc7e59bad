/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/resizer.h - the pool as a host of the resize engine.
 */
#ifndef POOL_RESIZER_H
#define POOL_RESIZER_H

#include "pool/claim.h"
#include "pool/session.h"

/* Buffers kept ready for pages that have to move. With a batch of claims they must fit into a slot. */
#define STOCK_MAX 31u

_Static_assert(STOCK_MAX + CLAIM_BATCH < SLOT_CLAIMS, "claims of a move fit into a slot");

/* Destinations: buffers of ours, marked MOVE, in chunks that stay. */
struct stock {
	uint32_t n;
	uint32_t buffer[STOCK_MAX];
	uint32_t place[STOCK_MAX];
	uint32_t n_cold;  /* of those, as many were made free for it, at most */
	uint64_t evicted; /* pages that went for it in this step */
	int exhausted;	  /* nothing more was to be had in this step */
};

struct tide_resizer {
	struct tide_session *session;
	struct tide_engine *engine;
	struct stock stock;
	uint64_t cut_op;      /* operation for which @cut holds */
	int cut;	      /* pages worth more than this are kept; -1 = all */
	uint64_t *ticket;     /* by chunk: grace period that its memory waits for; 0 = none begun */
	uint64_t trim_ticket; /* grace period that the end of the arrays waits for; 0 = none */
	uint32_t trim_to;     /* buffers */
	int tidy;	      /* the arrays were looked at since they changed last */
};

extern const struct tide_host_ops resizer_ops; /* host.c */

/* What is left of a chunk after a pass. */
struct drained {
	struct tide_drain_report report;
	struct tide_drain_work work;
	int code; /* of a page that could not be written */
};

/**
 * drain_chunk() - one pass over a chunk that is on its way out
 *
 * @write_bytes: may write so much; counted down
 */
void drain_chunk(struct tide_resizer *resizer, uint32_t chunk, uint64_t *write_bytes,
		 struct drained *out, struct tide_reason *why);

/** stock_fill() - take free buffers for pages that have to move; not with other claims held */
void stock_fill(struct tide_resizer *resizer);

/**
 * stock_make() - have @n destinations, if necessary at the cost of pages worth no more than the cut
 *
 * Only for pages that do move: what is evicted here is missed. May write within @write_bytes.
 */
void stock_make(struct tide_resizer *resizer, uint32_t n, uint64_t *write_bytes);

/** stock_return() - give back what is left, at the end of a step: nobody shall wait for it */
void stock_return(struct tide_resizer *resizer);

/**
 * relocate_page() - move the page of a settled claim to a buffer of the stock
 *
 * Return: 1 = moved, the claim is over and the source retired; 0 = no destination.
 */
int relocate_page(struct tide_resizer *resizer, struct claims *claims, uint32_t i);

/** relocate_allowed() - (J) pairs with (I) in flush.c: no session is walking over the buffers */
int relocate_allowed(struct tide_resizer *resizer);

/** relocate_cut() - the worth up to which pages go, so that the others fit into @n_buffers */
int relocate_cut(struct tide_resizer *resizer, uint64_t n_buffers);

/** resizer_fit_tables() - lookup table and ghosts for @n_buffers, whose memory is committed */
int resizer_fit_tables(struct tide_resizer *resizer, uint32_t n_buffers, struct tide_reason *why);

#endif /* POOL_RESIZER_H */
