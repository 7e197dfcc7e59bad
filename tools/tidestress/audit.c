/* SPDX-License-Identifier: PostgreSQL */
/* audit.c - after the storm: is everything there, and is nothing left over? */
#include "audit.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker.h"

#define HUGE_PAGES_WAIT_NS UINT64_C(3000000000)

static void find_failed(struct worker *worker, const char *what, const struct tide_reason *why)
{
	board_find(worker->ground->board, "afterwards, %s: %s: %s", what, tide_code_name(why->code),
		   why->message);
}

static int found_any(const struct worker *worker)
{
	return atomic_load_explicit(&worker->ground->board->n_findings, memory_order_relaxed) > 0;
}

/* Every page is verified, and one that is torn in storage is begun again. */
static void read_all(struct worker *worker)
{
	struct hold hold;

	for (uint64_t page = 0; page < options_footprint(worker->options) && !found_any(worker);
	     page++) {
		if (hold_begin(worker, &hold, page, TIDE_FIX_READ, 0))
			hold_end(worker, &hold);
		else if (!found_any(worker))
			board_find(worker->ground->board,
				   "afterwards, page %" PRIu64 " of all cannot be fixed", page);
	}
}

static void flush_all(struct worker *worker)
{
	uint64_t n = options_footprint(worker->options);
	struct model_flush *flush = model_flush_begin(worker->model, 0, n);
	struct tide_reason why = {0};

	if (!flush) {
		board_find(worker->ground->board, "afterwards, there is no memory for a flush");
		return;
	}
	if (tide_pool_flush(worker->session, TIDE_ALL_FILES, 0, TIDE_ALL_PAGES, &why) == 0) {
		model_flush_end(worker->model, flush);
		return;
	}
	model_flush_abandon(flush);
	find_failed(worker, "flush of everything", &why);
}

/* After a flush of everything that nobody disturbed, what is shown is what is durable. */
static void check_durable(struct worker *worker)
{
	for (uint64_t i = 0; i < worker->model->n_pages && !found_any(worker); i++) {
		const struct model_page *page = &worker->model->pages[i];
		uint64_t current = atomic_load_explicit(&page->current, memory_order_seq_cst);
		uint64_t durable = atomic_load_explicit(&page->durable, memory_order_seq_cst);

		if (current != durable)
			board_find(worker->ground->board,
				   "afterwards, page %" PRIu64 " of all is at version %" PRIu64
				   ", durable is %" PRIu64,
				   i, current, durable);
	}
}

static void drop_all(struct worker *worker)
{
	struct tide_reason why = {0};
	int code;

	model_intend_drop(worker->model, worker->slot, 0, worker->model->n_pages);
	code = tide_pool_drop(worker->session, TIDE_ALL_FILES, 0, TIDE_ALL_PAGES, &why);
	model_dropped(worker->model, worker->slot);
	if (code != 0)
		find_failed(worker, "drop of everything", &why);
}

static void check_pool(struct worker *worker, const char *when)
{
	struct tide_reason why = {0};

	if (tide_pool_check(worker->session, &why) != 0)
		find_failed(worker, when, &why);
}

static void resize_to(struct worker *worker, uint64_t bytes)
{
	struct tide_request request = {.target_bytes = bytes};
	struct tide_progress progress = {0};
	struct tide_reason why = {0};
	int code;

	code = tide_pool_resize(worker->session, &request, &progress, &why);
	if (code != 0)
		find_failed(worker, "resize", &why);
	else if (progress.state != TIDE_OP_DONE)
		find_failed(worker, tide_op_state_name(progress.state), &progress.reason);
}

static void check_sizes(struct worker *worker, struct tide_pool_status *status)
{
	struct board *board = worker->ground->board;
	struct tide_reason why = {0};

	if (tide_pool_status(worker->ground->pool, status, &why) != 0)
		find_failed(worker, "status", &why);
	else if (status->committed_bytes != status->allocatable_bytes)
		board_find(board,
			   "afterwards, %" PRIu64 " bytes are allocatable and %" PRIu64
			   " committed",
			   status->allocatable_bytes, status->committed_bytes);
	else if (status->sessions != 1)
		board_find(board, "afterwards, %" PRIu32 " sessions are open, one is ours",
			   status->sessions);
}

static void check_empty(struct worker *worker)
{
	struct tide_pool_status status;

	check_sizes(worker, &status);
	if (!found_any(worker) && (status.cached_pages != 0 || status.dirty_pages != 0))
		board_find(worker->ground->board,
			   "afterwards, %" PRIu64 " pages are left in the pool, %" PRIu64 " dirty",
			   status.cached_pages, status.dirty_pages);
}

static void audit(struct worker *worker)
{
	struct tide_pool_status status;

	(void)tide_pool_reap(worker->session);
	check_pool(worker, "check of the pool");
	read_all(worker);
	flush_all(worker);
	check_durable(worker);
	if (found_any(worker))
		return;
	drop_all(worker);
	check_empty(worker);
	read_all(worker);
	check_pool(worker, "check of the pool read again");
	check_sizes(worker, &status);
	resize_to(worker, status.min_bytes);
	check_sizes(worker, &status);
	resize_to(worker, status.max_bytes);
	check_pool(worker, "check of the pool resized");
	check_sizes(worker, &status);
}

void audit_pool(struct ground *ground)
{
	struct worker worker = {
		.ground = ground,
		.options = ground->options,
		.model = &ground->model,
		.place = &ground->board->place[ground->board->n_places],
		.random = random_stream(ground->options->seed, UINT64_C(4) << 32, 0),
		.me = UINT64_MAX,
	};
	struct tide_reason why = {0};

	if (tide_session_open(ground->pool, &worker.session, &why) != 0) {
		find_failed(&worker, "a session", &why);
		return;
	}
	audit(&worker);
	tide_session_close(worker.session);
}

/* --- leaks ------------------------------------------------------------------------------------ */

static uint64_t count_fds(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (!folder)
		return 0;
	while (readdir(folder))
		n++;
	(void)closedir(folder);
	return n;
}

static int is_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int found = 0;

	if (!maps)
		return 0;
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, name) != NULL;
	(void)fclose(maps);
	return found;
}

static uint64_t meminfo(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[256], label[64];
	uint64_t value, found = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "%63[^:]: %" SCNu64, label, &value) == 2 &&
		    strcmp(label, name) == 0)
			found = value;
	(void)fclose(file);
	return found;
}

static uint64_t huge_pages_in_use(void)
{
	uint64_t total = meminfo("HugePages_Total"), unused = meminfo("HugePages_Free");

	return total > unused ? total - unused : 0;
}

void audit_before(struct audit_before *before)
{
	before->fds = count_fds();
	before->huge_pages = huge_pages_in_use();
}

/* Others on the machine use huge pages, too: only what stays is ours. */
static void check_huge_pages(struct board *board, uint64_t before)
{
	const struct timespec nap = {.tv_nsec = 50000000};
	uint64_t end_ns = board_clock_ns() + HUGE_PAGES_WAIT_NS;
	uint64_t after;

	while ((after = huge_pages_in_use()) > before && board_clock_ns() < end_ns)
		(void)nanosleep(&nap, NULL);
	if (after > before)
		board_find(board,
			   "afterwards, %" PRIu64 " huge pages are in use, %" PRIu64 " were before",
			   after, before);
}

void audit_leaks(struct board *board, const struct options *options,
		 const struct audit_before *before)
{
	uint64_t fds = count_fds();

	if (fds != before->fds)
		board_find(board,
			   "afterwards, %" PRIu64 " descriptors are open, %" PRIu64 " were before",
			   fds, before->fds);
	if (is_mapped("memfd:tidestress") || is_mapped("memfd:tidepool"))
		board_find(board, "afterwards, memory of the pool is still mapped");
	if (options->huge != TIDE_HUGE_OFF)
		check_huge_pages(board, before->huge_pages);
}
