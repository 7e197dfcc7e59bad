/* SPDX-License-Identifier: PostgreSQL */
/*
 * resize/op.c - the states of an operation, in words.
 */
#include <tidepool/resize.h>

const char *tide_op_state_name(enum tide_op_state state)
{
	static const char *const names[TIDE_OP_STATES] = {
		[TIDE_OP_COMMIT] = "commit",	   [TIDE_OP_PUBLISH] = "publish",
		[TIDE_OP_FENCE] = "fence",	   [TIDE_OP_DRAIN] = "drain",
		[TIDE_OP_QUIESCE] = "quiesce",	   [TIDE_OP_RELEASE] = "release",
		[TIDE_OP_VERIFY] = "verify",	   [TIDE_OP_UNDO] = "undo",
		[TIDE_OP_IDLE] = "idle",	   [TIDE_OP_DONE] = "done",
		[TIDE_OP_PARTIAL] = "partial",	   [TIDE_OP_DENIED] = "denied",
		[TIDE_OP_CANCELLED] = "cancelled", [TIDE_OP_SUPERSEDED] = "superseded",
		[TIDE_OP_FAILED] = "failed",
	};

	return (unsigned)state < TIDE_OP_STATES ? names[state] : "unknown";
}

int tide_op_state_ended(enum tide_op_state state)
{
	return state >= TIDE_OP_IDLE && state < TIDE_OP_STATES;
}
