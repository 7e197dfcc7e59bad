/* SPDX-License-Identifier: PostgreSQL */
/* hold.c - a page fixed, verified, and written to. */
#include "worker.h"

#include <inttypes.h>
#include <time.h>

#include "participant.h"

#define WRITE_NS_MAX 2000000u

static struct model_page *model_page(const struct worker *worker, uint64_t page)
{
	return &worker->model->pages[page];
}

void worker_find(struct worker *worker, const char *what, uint64_t page,
		 const struct tide_reason *why)
{
	struct tide_page_id id = options_page_id(worker->options, page);
	char model[300];

	model_describe(worker->model, page, model, sizeof(model));
	board_find_about(worker->ground->board, page,
			 "file %" PRIu64 " page %" PRIu64 ", %s: %s: %s; %s", id.file, id.page,
			 what, tide_code_name(why->code), why->message, model);
}

/* What a page shows is wrong. @lead: why, "" = as the page itself says */
static void find_page(struct worker *worker, const struct hold *hold, const struct page_seen *seen,
		      const char *lead)
{
	char what[400], model[300];

	page_describe(seen, what, sizeof(what));
	model_describe(worker->model, hold->page, model, sizeof(model));
	board_find_about(worker->ground->board, hold->page,
			 "file %" PRIu64 " page %" PRIu64 " in buffer %" PRIu32
			 ", fixed by worker %#" PRIx64 ": %sthe page %s; %s",
			 hold->id.file, hold->id.page, hold->fix.buffer, worker->me, lead, what,
			 model);
}

static void note(struct worker *worker, enum trail_event event, uint64_t page, uint64_t version)
{
	trail_add(worker->ground->board->trail, event, page, 1, version);
}

static enum page_verdict verify(struct worker *worker, const struct hold *hold,
				struct page_seen *seen)
{
	board_do(worker->place, BOARD_VERIFYING, hold->page);
	board_add(worker->place, BOARD_VERIFIED, 1);
	return page_verify(hold->fix.page, worker->options->page_bytes, &hold->id,
			   worker->options->sample_words, &worker->random, seen);
}

/* The caller's fix excludes writers. 1 = as it must be */
static int verify_version(struct worker *worker, struct hold *hold)
{
	struct page_seen seen;
	enum page_verdict verdict = verify(worker, hold, &seen);

	hold->version = seen.version;
	if (verdict != PAGE_GOOD && verdict != PAGE_ZERO) {
		find_page(worker, hold, &seen, "");
		return 0;
	}
	switch (model_read(worker->model, hold->page, seen.version)) {
	case MODEL_GOOD:
		return 1;
	case MODEL_FELL_BACK:
		board_add(worker->place, BOARD_FELL_BACK, 1);
		note(worker, TRAIL_FELL_BACK, hold->page, seen.version);
		return 1;
	case MODEL_LOST_DURABLE:
		find_page(worker, hold, &seen, "a durable write was lost: ");
		return 0;
	case MODEL_LOST_WRITE:
		find_page(worker, hold, &seen, "a write was lost, and nobody died: ");
		return 0;
	case MODEL_FROM_NOWHERE:
		find_page(worker, hold, &seen, "nobody has written that: ");
		return 0;
	}
	return 0;
}

/* A page begun again may be zeros whatever was in storage. @repair: because that was torn */
static int verify_new(struct worker *worker, struct hold *hold, int repair)
{
	struct page_seen seen;

	if (verify(worker, hold, &seen) != PAGE_ZERO)
		return verify_version(worker, hold);
	model_renew(worker->model, hold->page);
	note(worker, TRAIL_BEGUN_AGAIN, hold->page, hold->version);
	if (repair)
		board_add(worker->place, BOARD_REPAIRED, 1);
	return 1;
}

/* Long enough in the middle to be killed or stopped there. */
static void write_slowly(struct worker *worker, const struct hold *hold, uint64_t version)
{
	struct timespec nap = {.tv_nsec = (long)random_below(&worker->random, WRITE_NS_MAX)};

	page_write_half(hold->fix.page, worker->options->page_bytes, version, &worker->random);
	(void)nanosleep(&nap, NULL);
}

static void write_page(struct worker *worker, struct hold *hold)
{
	int early = (int)random_below(&worker->random, 2);
	uint64_t version = model_begin_write(worker->model, hold->page);

	board_do(worker->place, BOARD_WRITING, hold->page);
	note(worker, TRAIL_CHANGING, hold->page, version);
	if (early)
		tide_pool_mark_dirty(worker->session, &hold->fix);
	if (random_one_in(&worker->random, 128))
		write_slowly(worker, hold, version);
	page_write(hold->fix.page, worker->options->page_bytes, &hold->id, version, worker->me);
	if (!early)
		tide_pool_mark_dirty(worker->session, &hold->fix);
	/* Last: a flush that sees the version must find the page dirty. */
	model_end_write(worker->model, hold->page, version);
	note(worker, TRAIL_CHANGED, hold->page, version);
	hold->version = version;
}

static void check_pinned(struct worker *worker, const struct hold *hold)
{
	struct page_seen seen;

	if (page_is(hold->fix.page, &hold->id))
		return;
	(void)page_verify(hold->fix.page, worker->options->page_bytes, &hold->id, 0, NULL, &seen);
	find_page(worker, hold, &seen, "pinned, and it is not that page: ");
}

static int visit(struct worker *worker, struct hold *hold, int repair)
{
	switch (hold->mode) {
	case TIDE_FIX_PIN:
		if (worker->options->write_ratio == 0)
			return verify_version(worker, hold);
		check_pinned(worker, hold);
		return 1;
	case TIDE_FIX_READ:
		return verify_version(worker, hold);
	case TIDE_FIX_WRITE:
		if (!verify_version(worker, hold))
			return 0;
		write_page(worker, hold);
		return 1;
	case TIDE_FIX_NEW:
		if (!verify_new(worker, hold, repair))
			return 0;
		write_page(worker, hold);
		return 1;
	}
	return 0;
}

static int fix(struct worker *worker, struct hold *hold, struct tide_reason *why)
{
	uint64_t start_ns, took_ns;
	int code;

	board_do(worker->place, (enum board_doing)(BOARD_FIXING_PIN + hold->mode), hold->page);
	start_ns = board_clock_ns();
	code = tide_pool_fix(worker->session, &hold->id, hold->mode, &hold->fix, why);
	took_ns = board_clock_ns() - start_ns;
	if (code != 0)
		return code;
	board_latency(worker->place, took_ns);
	board_add(worker->place, (enum board_count)(BOARD_PINS + hold->mode), 1);
	return 0;
}

/* 1 = the page must be begun again */
static int judge(struct worker *worker, const struct hold *hold, uint32_t renewed,
		 const struct tide_reason *why)
{
	switch (why->code) {
	case TIDE_IO_ERROR:
		board_add(worker->place, BOARD_IO_ERRORS, 1);
		if (worker->options->faults_per_million == 0)
			worker_find(worker, "fix without storage faults", hold->page, why);
		return 0;
	case TIDE_PAGE_CORRUPT:
		board_add(worker->place, BOARD_CORRUPT, 1);
		if (model_may_be_corrupt(worker->model, hold->page, renewed))
			return 1;
		worker_find(worker, "fix of a page that was never torn and lost", hold->page, why);
		return 0;
	case TIDE_POOL_EXHAUSTED:
		board_add(worker->place, BOARD_EXHAUSTED, 1);
		if (!participant_may_exhaust(worker->options))
			worker_find(worker, "fix in a pool that is large enough", hold->page, why);
		return 0;
	case TIDE_PINNED_BUFFERS:
		board_add(worker->place, BOARD_TORN_PINNED, 1);
		if (worker->options->kill_ns == 0)
			worker_find(worker, "fix where nobody dies", hold->page, why);
		return 0;
	default:
		worker_find(worker, "fix", hold->page, why);
		return 0;
	}
}

/* Fix and visit; *corrupt = 1 when it must be begun again. */
static int try_hold(struct worker *worker, struct hold *hold, int repair, int *corrupt)
{
	uint32_t renewed = atomic_load_explicit(&model_page(worker, hold->page)->renewed,
						memory_order_seq_cst);
	int writes = hold->mode == TIDE_FIX_WRITE || hold->mode == TIDE_FIX_NEW;
	struct tide_reason why = {0};

	*corrupt = 0;
	if (writes)
		model_intend_write(worker->model, worker->slot, hold->which, hold->page);
	if (fix(worker, hold, &why) != 0) {
		if (writes)
			model_withdraw(worker->model, worker->slot, hold->which);
		*corrupt = judge(worker, hold, renewed, &why);
		return 0;
	}
	if (visit(worker, hold, repair))
		return 1;
	hold_end(worker, hold);
	return 0;
}

int hold_begin(struct worker *worker, struct hold *hold, uint64_t page, enum tide_fix_mode mode,
	       uint32_t which)
{
	int corrupt;

	*hold = (struct hold){
		.id = options_page_id(worker->options, page),
		.page = page,
		.mode = mode,
		.which = which,
	};
	if (try_hold(worker, hold, 0, &corrupt))
		return 1;
	if (!corrupt)
		return 0;
	hold->mode = TIDE_FIX_NEW;
	return try_hold(worker, hold, 1, &corrupt);
}

void hold_check(struct worker *worker, const struct hold *hold)
{
	struct page_seen seen;

	if (hold->mode == TIDE_FIX_PIN) {
		check_pinned(worker, hold);
		return;
	}
	if (verify(worker, hold, &seen) > PAGE_ZERO)
		find_page(worker, hold, &seen, "it changed while it was fixed: ");
	else if (seen.version != hold->version)
		find_page(worker, hold, &seen, "it became another version while it was fixed: ");
}

void hold_end(struct worker *worker, struct hold *hold)
{
	int writes = hold->mode == TIDE_FIX_WRITE || hold->mode == TIDE_FIX_NEW;

	board_do(worker->place, BOARD_UNFIXING, hold->page);
	tide_pool_unfix(worker->session, &hold->fix);
	if (writes)
		model_withdraw(worker->model, worker->slot, hold->which);
}
