/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/write.h - writing dirty pages out.
 *
 * A page that is being written is held like a page fixed for reading: nobody writes to it and it stays
 * where it is. It is dirty until it is on storage, so that whoever dies in the middle loses nothing.
 */
#ifndef POOL_WRITE_H
#define POOL_WRITE_H

#include "pool/session.h"

/* Bit i = buffers[i]; in neither set: it was not dirty, or somebody owned it. */
struct written {
	uint64_t done;	 /* has been written */
	uint64_t failed; /* is still dirty */
};

/**
 * write_out() - write those of the buffers that are dirty and that nobody owns
 *
 * At most SLOT_HOLDS buffers. Not inside a read section.
 *
 * Return: 0, or the code of a page that could not be written; the others were tried.
 */
int write_out(struct tide_session *session, const uint32_t *buffers, uint32_t n,
	      struct written *out, struct tide_reason *why);

/** write_sync() - sync @file, or with TIDE_ALL_FILES every file written to since it was synced last */
int write_sync(struct tide_session *session, uint64_t file, struct tide_reason *why);

#endif /* POOL_WRITE_H */
