/* SPDX-License-Identifier: PostgreSQL */
/* resize.h - one resize to a random size, and whether it may end as it did. */
#ifndef TIDESTRESS_RESIZE_H
#define TIDESTRESS_RESIZE_H

#include "ground.h"

/*
 * Who resizes. @refused_since_ns: since when somebody else has been found resizing while @ended
 * resizes had ended; 0 = not the last time
 */
struct resize {
	struct ground *ground;
	struct board_place *place;
	struct tide_session *session;
	struct random *random;
	uint64_t refused_since_ns;
	uint64_t ended;
};

/* The session has nothing fixed. What may not be is a finding. */
void resize_once(struct resize *resize);

#endif
