/* SPDX-License-Identifier: PostgreSQL */
/* watch.c - does everybody get on? */
#include "watch.h"

#include <inttypes.h>
#include <stdlib.h>

int watch_open(struct watch *watch, uint32_t n_places)
{
	watch->beats = calloc(n_places, sizeof(uint64_t));
	watch->since_ns = calloc(n_places, sizeof(uint64_t));
	return watch->beats != NULL && watch->since_ns != NULL;
}

void watch_close(struct watch *watch)
{
	free(watch->beats);
	free(watch->since_ns);
}

static void tell(const struct child *child, uint32_t place_number, uint32_t thread,
		 const char *what)
{
	struct board *board = child->ground->board;
	const struct board_place *place = &board->place[place_number];
	uint64_t page = atomic_load_explicit(&place->page, memory_order_relaxed);
	struct tide_page_id id = options_page_id(child->ground->options, page);
	enum board_doing doing =
		(enum board_doing)atomic_load_explicit(&place->doing, memory_order_relaxed);

	board_find(board,
		   "%s %d thread %" PRIu32 " %s: it was %s (file %" PRIu64 " page %" PRIu64 ")",
		   child_is_resizer(child) ? "resizer" : "participant", (int)child->pid, thread,
		   what, board_doing_name(doing), id.file, id.page);
}

void watch_child(struct watch *watch, const struct child *child, int runs, uint64_t now_ns)
{
	uint32_t first, n = child_places(child, &first);

	for (uint32_t i = first; i < first + n; i++) {
		uint64_t beats = atomic_load_explicit(&child->ground->board->place[i].beats,
						      memory_order_relaxed);

		if (!runs || beats != watch->beats[i]) {
			watch->beats[i] = beats;
			watch->since_ns[i] = now_ns;
		} else if (now_ns - watch->since_ns[i] > WATCH_LIMIT_NS) {
			watch->since_ns[i] = now_ns;
			tell(child, i, i - first, "made no progress for 10 s");
		}
	}
}

void watch_tell(const struct child *child, const char *what)
{
	uint32_t first, n = child_places(child, &first);

	for (uint32_t i = first; i < first + n; i++)
		tell(child, i, i - first, what);
}
