/* SPDX-License-Identifier: PostgreSQL */
/*
 * examples/pool.c DIRECTORY - a pool of 16 MiB over files in a folder: writes a page, makes it durable,
 * shrinks the pool to 4 MiB and reads the page again.
 *
 *     cc -o pool pool.c $(pkg-config --cflags --libs tidepool)
 */
#include <stdio.h>
#include <string.h>
#include <tidepool/pool.h>

#define MIB (UINT64_C(1) << 20)

static int work(struct tide_pool *pool, struct tide_session *session, struct tide_reason *why)
{
	struct tide_page_id id = {.file = 1, .page = 7};
	struct tide_request request = {.target_bytes = 4 * MIB};
	struct tide_progress progress;
	struct tide_pool_status status;
	struct tide_fix fix;

	if (tide_pool_fix(session, &id, TIDE_FIX_WRITE, &fix, why) != 0)
		return -1;
	tide_pool_mark_dirty(session, &fix);
	strcpy(fix.page, "hello");
	tide_pool_unfix(session, &fix);
	if (tide_pool_flush(session, id.file, id.page, 1, why) != 0)
		return -1;

	if (tide_pool_resize(session, &request, &progress, why) != 0)
		return -1;
	if (progress.state != TIDE_OP_DONE)
		printf("resize: %s: %s\n", tide_op_state_name(progress.state),
		       progress.reason.message);
	if (tide_pool_status(pool, &status, why) != 0)
		return -1;
	printf("%llu bytes allocatable, %llu committed, %llu at most\n",
	       (unsigned long long)status.allocatable_bytes,
	       (unsigned long long)status.committed_bytes, (unsigned long long)status.max_bytes);

	if (tide_pool_fix(session, &id, TIDE_FIX_READ, &fix, why) != 0)
		return -1;
	printf("page %llu says %s\n", (unsigned long long)id.page, (char *)fix.page);
	tide_pool_unfix(session, &fix);
	return 0;
}

int main(int argc, char **argv)
{
	struct tide_file_config files = {
		.directory = argc > 1 ? argv[1] : ".", .page_bytes = 8192, .checksum_offset = 8184};
	struct tide_pool_config config = {.name = "example",
					  .page_bytes = 8192,
					  .max_bytes = 64 * MIB,
					  .start_bytes = 16 * MIB};
	struct tide_pool *pool = NULL;
	struct tide_session *session = NULL;
	struct tide_reason why;
	int code = tide_file_open(&files, &config.storage, &why);

	if (code == 0 && (code = tide_pool_create(&config, &pool, &why)) == 0 &&
	    (code = tide_session_open(pool, &session, &why)) == 0)
		code = work(pool, session, &why);
	if (code != 0)
		fprintf(stderr, "%s\n%s\n", why.message, why.hint);
	if (session)
		tide_session_close(session);
	if (pool)
		tide_pool_detach(pool);
	if (config.storage.ops)
		tide_file_close(&config.storage);
	return code != 0;
}
