/* SPDX-License-Identifier: PostgreSQL */
/* participant.h - a process whose threads use the pool and verify what they see. */
#ifndef TIDESTRESS_PARTICIPANT_H
#define TIDESTRESS_PARTICIPANT_H

#include "ground.h"

/*
 * The whole life of process number @process, in a child; returns its exit code. @life: how many had
 * that number before.
 */
int participant_main(struct ground *ground, uint32_t process, uint32_t life);

/* May a fix find every buffer in use? Only where the smallest pool is small against its users. */
int participant_may_exhaust(const struct options *options);

#endif
