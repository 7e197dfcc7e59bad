/* SPDX-License-Identifier: PostgreSQL */
/* resizer.h - the process that gives the pool a random size again and again. */
#ifndef TIDESTRESS_RESIZER_H
#define TIDESTRESS_RESIZER_H

#include "ground.h"
#include "resize.h"

/* Resize again and again until everybody ends. */
void resizer_storm(struct resize *resize);

/* Its whole life, in a child; returns its exit code. @life: how many there were before. */
int resizer_main(struct ground *ground, uint32_t life);

#endif
