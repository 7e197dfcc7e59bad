/* SPDX-License-Identifier: PostgreSQL */
/* pool/evict.h - making buffers free: the hands sweep, what they pick goes. */
#ifndef POOL_EVICT_H
#define POOL_EVICT_H

#include "pool/claim.h"

/**
 * evict_batch() - make some buffers free; they become hints of the session
 *
 * @ghost: the page that needs a buffer has a ghost (replace_takes_small())
 *
 * Not inside a read section. Return: how many; 0 = none at this moment; TIDE_IO_ERROR when only dirty
 * pages were found and none could be written.
 */
int evict_batch(struct tide_session *session, int ghost, struct tide_reason *why);

#endif /* POOL_EVICT_H */
