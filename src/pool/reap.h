/* SPDX-License-Identifier: PostgreSQL */
/* pool/reap.h - what a participant that died still held. */
#ifndef POOL_REAP_H
#define POOL_REAP_H

#include "pool/shared.h"

/**
 * pool_reap() - take back what dead participants held, and their slots
 *
 * Not inside a read section, and not with a lock held. Return: how many there were.
 */
uint32_t pool_reap(struct tide_pool *pool);

#endif /* POOL_REAP_H */
