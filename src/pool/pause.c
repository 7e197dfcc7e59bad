/* SPDX-License-Identifier: PostgreSQL */
/* pause.c - named points at which a test holds or ends a process. */
#include "pool/pause.h"

__attribute__((weak)) void pool_pause(enum pool_pause at)
{
	(void)at;
}
