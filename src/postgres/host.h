/*-------------------------------------------------------------------------
 *
 * host.h
 *	  PostgreSQL as a host of the resize engine.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_HOST_H
#define TIDEPOOL_HOST_H

#include "compat.h"

#include <tidepool/resize.h>

/* The operations; the host pointer is not used, there is one pool a server. */
extern const struct tide_host_ops tide_postgres_host;

/* In the worker, before the engine is opened. */
extern void TideHostInit(void);

/* Could a grow to so many bytes be had?  For a dry run in any process. */
extern int	tide_host_preflight(void *host, uint64_t bytes, struct tide_reason *why);

/* What the kernel backs, without the metadata that is always committed. */
extern int	tide_host_audit(void *host, uint64_t *committed_bytes, struct tide_reason *why);

/* In the worker: give back what a stray read of retired buffers has allocated. */
extern void TideHostReleaseStray(void);

#endif							/* TIDEPOOL_HOST_H */
