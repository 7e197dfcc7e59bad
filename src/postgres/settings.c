/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The tidepool.* settings.
 *
 * Check hooks run in every process, some of them without a PGPROC: they look
 * at the text alone and do no work.
 *
 *-------------------------------------------------------------------------
 */
#include "settings.h"

#include <math.h>

#include "utils/guc.h"

char	   *tide_size_setting = NULL;
char	   *tide_min_size_setting = NULL;
int			tide_huge_pages = TIDE_HUGE_TRY;
int			tide_huge_page_size_kb = 0;
char	   *tide_numa_setting = NULL;
int			tide_drain_timeout_ms = 60000;
int			tide_flush_rate_kb = 0;
int			tide_linger_s = 0;
char	   *tide_cgroup_root = NULL;

static const struct config_enum_entry huge_pages_options[] = {
	{"off", TIDE_HUGE_OFF, false},
	{"try", TIDE_HUGE_TRY, false},
	{"on", TIDE_HUGE_ON, false},
	{NULL, 0, false}
};

struct tide_machine
TideMachine(void)
{
	struct tide_machine machine = {.cgroup_root = tide_cgroup_root};

	return machine;
}

/* Smallest memory limit of machine and cgroups; 0 when it cannot be read. */
static uint64
memory_limit(void)
{
	struct tide_machine machine = TideMachine();
	struct tide_machine_memory memory;

	if (tide_machine_memory(&machine, 0, &memory, NULL) != 0)
		return 0;
	return memory.limit;
}

static bool
parse_percentage(const char *text, uint64 *bytes, const char **why)
{
	char	   *end;
	double		percent = strtod(text, &end);
	uint64		limit;

	while (isspace((unsigned char) *end))
		end++;
	if (end == text || strcmp(end, "%") != 0 || !(percent > 0 && percent <= 100))
	{
		*why = "A percentage lies above 0% and at most at 100%.";
		return false;
	}
	limit = memory_limit();
	if (limit == 0)
	{
		*why = "The memory limit of this machine cannot be read.";
		return false;
	}
	*bytes = (uint64) ((double) limit * percent / 100.0);
	return true;
}

bool
TideParseSize(const char *text, uint64 *bytes, bool *is_percentage, const char **why)
{
	double		value;
	const char *hint = NULL;

	*is_percentage = strchr(text, '%') != NULL;
	if (*is_percentage)
		return parse_percentage(text, bytes, why);

	if (!parse_real(text, &value, GUC_UNIT_BYTE, &hint))
	{
		*why = hint ? hint : "A size is a number with B, kB, MB, GB or TB, or a percentage of memory.";
		return false;
	}
	if (value < 0 || isinf(value))
	{
		*why = "A size is not negative and not infinite.";
		return false;
	}
	/* what does not fit 64 bits is above every ceiling all the same */
	*bytes = value >= 9.2e18 ? PG_INT64_MAX : (uint64) value;
	return true;
}

static bool
check_size(char **newval, void **extra, GucSource source)
{
	uint64		bytes;
	bool		is_percentage;
	const char *why = NULL;

	if (**newval == '\0')
		return true;
	if (TideParseSize(*newval, &bytes, &is_percentage, &why))
		return true;
	GUC_check_errdetail("%s", why);
	return false;
}

static bool
parse_numa(const char *text, struct tide_numa *numa)
{
	memset(numa, 0, sizeof(*numa));
	if (*text == '\0' || strcmp(text, "local") == 0)
		numa->mode = TIDE_NUMA_LOCAL;
	else if (strncmp(text, "interleave", strlen("interleave")) == 0)
		numa->mode = TIDE_NUMA_INTERLEAVE;
	else if (strncmp(text, "bind:", strlen("bind:")) == 0)
		numa->mode = TIDE_NUMA_BIND;
	else
		return false;

	if (strchr(text, ':') != NULL)
	{
		if (strlcpy(numa->nodes, strchr(text, ':') + 1, sizeof(numa->nodes)) >= sizeof(numa->nodes))
			return false;
		return numa->nodes[0] != '\0';
	}
	return numa->mode != TIDE_NUMA_INTERLEAVE || strcmp(text, "interleave") == 0;
}

static bool
check_numa(char **newval, void **extra, GucSource source)
{
	struct tide_numa numa;

	if (parse_numa(*newval, &numa))
		return true;
	GUC_check_errdetail("The value is \"local\", \"interleave\", \"interleave:NODES\" or \"bind:NODES\", for instance \"bind:0-1\".");
	return false;
}

struct tide_numa
TideNumaSetting(void)
{
	struct tide_numa numa;

	if (!parse_numa(tide_numa_setting, &numa))
		elog(ERROR, "invalid value of \"tidepool.numa\" passed its check: %s", tide_numa_setting);
	return numa;
}

static bool
check_huge_page_size(int *newval, void **extra, GucSource source)
{
	if (*newval == 0 || *newval == 2048 || *newval == 1048576)
		return true;
	GUC_check_errdetail("Huge pages of 2MB and 1GB are supported; 0 means 2MB.");
	return false;
}

uint64
TideFloorInForce(uint64 derived_bytes, uint64 max_bytes)
{
	uint64		bytes = 0;
	bool		is_percentage;
	const char *why;

	if (*tide_min_size_setting != '\0' &&
		TideParseSize(tide_min_size_setting, &bytes, &is_percentage, &why) &&
		bytes > derived_bytes)
		return Min(bytes, max_bytes);
	return derived_bytes;
}

uint64
TideWantedSize(uint64 floor_bytes, uint64 max_bytes)
{
	uint64		bytes;
	bool		is_percentage;
	const char *why;

	if (*tide_size_setting == '\0' ||
		!TideParseSize(tide_size_setting, &bytes, &is_percentage, &why))
		return max_bytes;
	if (is_percentage)
		return Max(Min(bytes, max_bytes), floor_bytes);
	return bytes;
}

void
TideDefineSettings(void)
{
	DefineCustomStringVariable("tidepool.size",
							   "Size of the buffer pool; shared_buffers is the ceiling.",
							   "A number with B, kB, MB, GB or TB, or a percentage of the memory that the machine or the cgroup allows. Empty means the ceiling. A reload applies it.",
							   &tide_size_setting, "", PGC_SIGHUP, 0,
							   check_size, NULL, NULL);
	DefineCustomStringVariable("tidepool.min_size",
							   "Smallest size that a resize may ask for.",
							   "Empty means the floor that follows from max_connections; a lower value has no effect.",
							   &tide_min_size_setting, "", PGC_SIGHUP, 0,
							   check_size, NULL, NULL);
	DefineCustomEnumVariable("tidepool.huge_pages",
							 "Use of huge pages for the buffer pool.",
							 "\"on\" refuses to start without them, \"try\" goes on without, \"off\" never asks.",
							 &tide_huge_pages, TIDE_HUGE_TRY, huge_pages_options, PGC_POSTMASTER, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("tidepool.huge_page_size",
							"Size of a huge page of the buffer pool.",
							"2MB or 1GB; 0 means 2MB.",
							&tide_huge_page_size_kb, 0, 0, 1048576, PGC_POSTMASTER, GUC_UNIT_KB,
							check_huge_page_size, NULL, NULL);
	DefineCustomStringVariable("tidepool.numa",
							   "Placement of the buffer pool on NUMA nodes.",
							   "\"local\", \"interleave\", \"interleave:NODES\" or \"bind:NODES\".",
							   &tide_numa_setting, "interleave", PGC_POSTMASTER, 0,
							   check_numa, NULL, NULL);
	DefineCustomIntVariable("tidepool.drain_timeout",
							"Time after which a resize ends with what it has reached.",
							"0 means no limit. tidepool.resize() may be given another one.",
							&tide_drain_timeout_ms, 60000, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("tidepool.flush_rate",
							"Limit per second on writing dirty pages of what is given up.",
							"0 means no limit.",
							&tide_flush_rate_kb, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("tidepool.linger",
							"Time for which memory that was given up stays committed.",
							"A size that swings then does not pay for it twice. 0 gives it back at once.",
							&tide_linger_s, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S,
							NULL, NULL, NULL);
	DefineCustomStringVariable("tidepool.cgroup_root",
							   "Mount point of the cgroup file systems.",
							   NULL,
							   &tide_cgroup_root, "/sys/fs/cgroup", PGC_POSTMASTER, GUC_SUPERUSER_ONLY,
							   NULL, NULL, NULL);
	MarkGUCPrefixReserved("tidepool");
}
