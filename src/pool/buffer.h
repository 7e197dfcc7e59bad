/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/buffer.h - free buffers: getting one for a page, and giving one back.
 *
 * Free buffers are found by the counts of their chunks; those that a session made free by evicting
 * several pages at once carry a hint and are found by that session first.
 */
#ifndef POOL_BUFFER_H
#define POOL_BUFFER_H

#include "pool/session.h"

/**
 * buffer_take() - a buffer of our own, loading: free, or made free by evicting
 *
 * @ghost: of the page that needs it; @place: of the claim. Not inside a read section. May write dirty pages, and may wait for up to a second.
 *
 * Return: 0; TIDE_POOL_EXHAUSTED; TIDE_IO_ERROR when dirty pages were all there was, and writing failed.
 */
int buffer_take(struct tide_session *session, int ghost, uint32_t *buffer, uint32_t *place,
		struct tide_reason *why);

/**
 * buffer_find_free() - the same, but only what is free already
 *
 * @mark: STATE_LOAD or STATE_MOVE. Return: 1 or 0.
 */
int buffer_find_free(struct tide_session *session, uint64_t mark, uint32_t *buffer,
		     uint32_t *place);

/** buffer_give() - a buffer that we own without a page becomes free; its claim ends */
void buffer_give(struct tide_session *session, uint32_t buffer, uint32_t place);

/** buffer_make_loading() - of a claimed buffer whose page has been forgotten: mark as for take */
void buffer_make_loading(struct tide_session *session, uint32_t buffer, uint64_t mark);

/** buffer_drop_hints() - the session's hints are for everybody */
void buffer_drop_hints(struct tide_session *session);

/** buffer_publish_hint() - a free buffer, seen in @state with a hint, is for everybody */
void buffer_publish_hint(struct tide_pool *pool, uint32_t buffer, uint64_t state);

/** buffer_count_free() - a buffer has become free and has no hint */
void buffer_count_free(struct tide_pool *pool, uint32_t buffer);

/** buffer_uncount_free() - and is not any more */
void buffer_uncount_free(struct tide_pool *pool, uint32_t buffer);

#endif /* POOL_BUFFER_H */
