/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The tidepool.* settings and the sizes that they mean.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_SETTINGS_H
#define TIDEPOOL_SETTINGS_H

#include "compat.h"

#include <tidepool/region.h>

extern char *tide_size_setting; /* tidepool.size: "" = the ceiling */
extern char *tide_min_size_setting; /* tidepool.min_size: "" = the derived floor */
extern int	tide_huge_pages;	/* enum tide_huge_policy */
extern int	tide_huge_page_size_kb; /* 0 = 2 MB */
extern char *tide_numa_setting;
extern int	tide_drain_timeout_ms;	/* 0 = none */
extern int	tide_flush_rate_kb; /* per second; 0 = no limit */
extern int	tide_linger_s;
extern char *tide_cgroup_root;

extern void TideDefineSettings(void);

/* Where the library reads facts about the machine. */
extern struct tide_machine TideMachine(void);

/* tidepool.numa as the library's structure; the setting has been checked. */
extern struct tide_numa TideNumaSetting(void);

/*
 * A size as people write it, in bytes: a number with B, kB, MB, GB or TB (B
 * without a unit), or a percentage of the memory that machine or cgroup
 * allow.  False with *why (a constant or palloc'd string) when it is none.
 */
extern bool TideParseSize(const char *text, uint64 *bytes, bool *is_percentage, const char **why);

/*
 * The size that tidepool.size stands for in a pool with this floor and
 * ceiling.  A percentage means at most the ceiling and at least the floor;
 * an absolute size is taken as it is.
 */
extern uint64 TideWantedSize(uint64 floor_bytes, uint64 max_bytes);

/* The floor in force: the derived one, or tidepool.min_size when higher. */
extern uint64 TideFloorInForce(uint64 derived_bytes, uint64 max_bytes);

#endif							/* TIDEPOOL_SETTINGS_H */
