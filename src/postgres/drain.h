/*-------------------------------------------------------------------------
 *
 * drain.h
 *	  Emptying chunks: write what is dirty, drop what is clean.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_DRAIN_H
#define TIDEPOOL_DRAIN_H

#include "compat.h"

#include <tidepool/resize.h>

/* Allocate what draining needs, so that nothing has to be allocated later. */
extern void TideDrainInit(void);

/* Host operations, see tidepool/resize.h. */
extern void tide_host_survey(void *host, uint32_t first, uint32_t n,
							 struct tide_chunk_fact *facts);
extern int	tide_host_fence(void *host, const uint32_t *chunks, uint32_t n,
							struct tide_reason *why);
extern int	tide_host_drain(void *host, const uint32_t *chunks, uint32_t n,
							const struct tide_drain_budget *budget,
							struct tide_drain_report *reports,
							struct tide_drain_work *work, struct tide_reason *why);
extern int	tide_host_publish(void *host, const uint32_t *chunks, uint32_t n,
							  struct tide_reason *why);

#endif							/* TIDEPOOL_DRAIN_H */
