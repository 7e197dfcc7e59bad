/* SPDX-License-Identifier: PostgreSQL */
/* ground.c - what a run stands on. */
#include "ground.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"

/* Sessions beside those of participants: resizer, supervisor, some whose owner has just died. */
#define SPARE_SESSIONS 8u

static int cannot_run(const char *what, const char *why)
{
	(void)fprintf(stderr, "tidestress: cannot run here: %s: %s\n", what, why);
	return EXIT_CANNOT_RUN;
}

static int make_folder(struct ground *ground)
{
	const char *parent = ground->options->directory;

	if (!parent)
		parent = getenv("TMPDIR");
	if (!parent || !*parent)
		parent = "/tmp";
	(void)snprintf(ground->folder, sizeof(ground->folder), "%s/tidestress.XXXXXX", parent);
	if (mkdtemp(ground->folder))
		return -1;
	ground->folder[0] = '\0';
	return cannot_run(parent, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

static int create_pool(struct ground *ground)
{
	const struct options *options = ground->options;
	const struct tide_pool_config config = {
		.name = "tidestress",
		.page_bytes = options->page_bytes,
		.max_bytes = options->max_bytes,
		.start_bytes = options->start_bytes,
		.max_sessions = options_participants(options) + SPARE_SESSIONS,
		.huge = options->huge,
		.storage = store_storage(&ground->store),
	};
	struct tide_reason why = {0};

	if (tide_pool_create(&config, &ground->pool, &why) == 0)
		return -1;
	if (why.code == TIDE_BAD_REQUEST) {
		(void)fprintf(stderr, "tidestress: %s\n", why.message);
		return EXIT_BAD_USAGE;
	}
	return cannot_run(tide_code_name(why.code), why.message);
}

int ground_open(struct ground *ground, const struct options *options)
{
	struct tide_reason why = {0};
	int code;

	*ground = (struct ground){.options = options, .supervisor = getpid()};
	ground->board = board_open(options->processes, options->threads);
	if (!ground->board)
		return cannot_run("shared memory", strerror(errno));
	if (model_open(&ground->model, options_footprint(options), options_participants(options)) !=
	    0)
		return cannot_run("shared memory", strerror(errno));
	if (!options->memory_storage && (code = make_folder(ground)) >= 0)
		return code;
	ground->store = (struct store){
		.options = options,
		.model = &ground->model,
		.board = ground->board,
		.directory = ground->folder,
		.process = options->processes + 1,
	};
	if (store_open(&ground->store, &why) != 0)
		return cannot_run("storage", why.message);
	return create_pool(ground);
}

void ground_clear(struct ground *ground)
{
	if (ground->pool)
		tide_pool_detach(ground->pool);
	if (ground->store.below.ops)
		store_close(&ground->store);
	if (ground->folder[0])
		(void)nftw(ground->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	if (ground->model.pages)
		model_close(&ground->model);
	ground->pool = NULL;
	ground->store.below.ops = NULL;
	ground->folder[0] = '\0';
	ground->model.pages = NULL;
}

/* A child neither outlives the supervisor nor answers the keyboard. */
static void become_child(const struct ground *ground)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != ground->supervisor)
		_exit(EXIT_FAILURE);
	interrupt_leave_to_supervisor();
}

/* The inherited handle goes when the new one is there: a pool lives as long as it is mapped. */
static int attach_again(struct ground *ground, struct tide_reason *why)
{
	struct tide_storage storage = store_storage(&ground->store);
	struct tide_machine machine = {0};
	struct tide_pool *inherited = ground->pool;
	int fds[2];
	int code;

	tide_pool_fds(inherited, fds);
	code = tide_pool_attach(fds, &storage, &machine, &ground->pool, why);
	if (code == 0)
		tide_pool_detach(inherited);
	return code;
}

int ground_enter(struct ground *ground, uint32_t process, uint32_t life, uint64_t seed, int attach)
{
	struct tide_reason why = {0};

	become_child(ground);
	if (store_reopen(&ground->store, process, life, seed, !attach, &why) != 0) {
		board_find(ground->board, "storage cannot be opened: %s", why.message);
		return 0;
	}
	if (attach && attach_again(ground, &why) != 0) {
		board_find(ground->board, "the pool cannot be attached: %s: %s",
			   tide_code_name(why.code), why.message);
		return 0;
	}
	return 1;
}

void ground_leave(struct ground *ground)
{
	tide_pool_detach(ground->pool);
	store_close_again(&ground->store);
}
