/* SPDX-License-Identifier: PostgreSQL */
/*
 * lookup_points.h - the lookup table built once more, with a point after each of its stores.
 *
 * The including program defines lookup_point(). Names are changed so that this build can be linked
 * next to the library's own objects.
 */
#ifndef TESTS_LOOKUP_POINTS_H
#define TESTS_LOOKUP_POINTS_H

#define TIDE_PAUSE_POINTS
#define tide_lookup_layout points_layout
#define tide_lookup_head_bytes points_head_bytes
#define tide_lookup_init points_init
#define tide_lookup_open points_open
#define tide_lookup_close points_close
#define tide_lookup_hash points_hash
#define tide_lookup_prefetch points_prefetch
#define tide_lookup_find points_find
#define tide_lookup_insert points_insert
#define tide_lookup_remove points_remove
#define tide_lookup_replace points_replace
#define tide_lookup_resize points_resize
#define tide_lookup_stats points_stats
#define tide_lookup_valid points_valid
#define lookup_hash_of points_hash_of
#define lookup_lock points_lock
#define lookup_unlock points_unlock
#define lookup_settle points_settle
#define chain_begin points_chain_begin
#define chain_next points_chain_next
#define chain_find points_chain_find
#define chain_enter points_chain_enter
#define chain_tidy points_chain_tidy
#define chain_drop points_chain_drop
#define chain_relocate points_chain_relocate
#define chain_repair points_chain_repair

/* The table's own files: they are one program here. */
#include "rcu/lookup.c"
#include "rcu/lookup_chain.c"
#include "rcu/lookup_resize.c"
#include "rcu/lookup_valid.c"
#include "rcu/lookup_write.c"

#endif /* TESTS_LOOKUP_POINTS_H */
