/* SPDX-License-Identifier: PostgreSQL */
/* Tests of what is left when the n-th system call of a create, an attach or a resize fails. */
#include "../memory/faulty_prim.h"
#include "pool_fixture.h"

#include <fcntl.h>
#include <stdio.h>

#define CHUNKS 6u
#define PAGES 100u

/* Open files and mappings of this process that belong to pools. */
static unsigned count_belongings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "tidepool-test") != NULL || strstr(line, "---s") != NULL;
	fclose(maps);
	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

START_TEST(create_leaves_nothing)
{
	const int errors[] = {ENOMEM, EINVAL, ENOSPC};
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, CHUNKS, 2);
	const unsigned before = count_belongings();

	for (int e = 0; e < 3; e++)
		for (int call = 0; call < PRIM_CALLS; call += call + 1 == PRIM_UNMAP ? 2 : 1)
			for (unsigned k = 1;; k++) {
				struct tide_pool *pool = (struct tide_pool *)&pool;
				struct tide_reason reason = {0};
				int code;

				prim_plan_set((enum prim_call)call, k, k, errors[e], 0);
				code = tide_pool_create(&config, &pool, &reason);
				ck_assert_int_eq(code, reason.code);
				if (code != 0)
					ck_assert_ptr_null(pool);
				tide_pool_detach(pool);
				ck_assert_uint_eq(count_belongings(), before);
				if (prim_counts[call] < k)
					break;
			}
	prim_plan_clear();
}
END_TEST

START_TEST(attach_leaves_nothing)
{
	struct fx fx;
	int fds[2];
	unsigned before;

	fx_open(&fx, CHUNKS, 2);
	tide_pool_fds(fx.pool, fds);
	before = count_belongings();
	for (int call = 0; call < PRIM_CALLS; call += call + 1 == PRIM_UNMAP ? 2 : 1)
		for (unsigned k = 1;; k++) {
			const struct tide_storage storage = fx_storage(fx.store);
			struct tide_pool *pool = (struct tide_pool *)&pool;
			struct tide_reason reason = {0};
			int code;

			prim_plan_set((enum prim_call)call, k, k, ENOMEM, 0);
			code = tide_pool_attach(fds, &storage, NULL, &pool, &reason);
			ck_assert_int_eq(code, reason.code);
			if (code != 0)
				ck_assert_ptr_null(pool);
			tide_pool_detach(pool);
			ck_assert_uint_eq(count_belongings(), before);
			if (prim_counts[call] < k)
				break;
		}
	prim_plan_clear();
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Return: 1 when the call came to be made. */
static int resize_with_fault(struct fx *fx, enum prim_call call, unsigned k, int error, int half,
			     uint32_t chunks)
{
	const uint64_t before = fx_status(fx).allocatable_bytes;
	const struct tide_request request = {.target_bytes = chunks * FX_CHUNK};
	struct tide_progress progress;
	struct tide_reason reason;
	int code, failed;

	prim_plan_set(call, k, k, error, half);
	code = tide_pool_resize(fx->s, &request, &progress, &reason);
	failed = prim_counts[call] >= k;
	prim_plan_clear();
	if (code != 0 || progress.state == TIDE_OP_DONE)
		return failed;
	ck_assert_int_ne(progress.reason.code, 0);
	/* A grow is undone. A shrink leaves what it could not give back to the next resize. */
	if (chunks * FX_CHUNK > before && (call == PRIM_ADVISE || call == PRIM_FALLOCATE)) {
		ck_assert_uint_eq(fx_status(fx).allocatable_bytes, before);
		ck_assert_uint_eq(fx_status(fx).committed_bytes, before);
		FX_OK(tide_pool_check(fx->s, &why));
	}
	return failed;
}

static void check_pages(struct fx *fx)
{
	for (uint64_t page = 0; page < PAGES; page++)
		ck_assert_uint_eq(fx_get(fx->s, page), page + 1);
}

static void resize_with_faults(enum prim_call call, int error, int half, uint32_t from,
			       uint32_t size)
{
	uint64_t beside = 0;
	struct fx fx;

	fx_open(&fx, CHUNKS, from);
	for (uint64_t page = 0; page < PAGES; page++)
		fx_put(fx.s, page, page + 1);
	for (unsigned k = 1; resize_with_fault(&fx, call, k, error, half, size); k++) {
		check_pages(&fx);
		(void)fx_resize(fx.s, from);
		fx_check(&fx);
		check_pages(&fx);
		if (beside == 0)
			beside = fx_status(&fx).beside_bytes;
		ck_assert_uint_eq(fx_status(&fx).beside_bytes, beside);
	}
	ck_assert_uint_eq(fx_status(&fx).allocatable_bytes, size * FX_CHUNK);
	check_pages(&fx);
	fx_check(&fx);
	fx_close(&fx);
}

START_TEST(grow_with_faults)
{
	const enum prim_call calls[] = {PRIM_ADVISE, PRIM_FALLOCATE, PRIM_STAT, PRIM_READ,
					PRIM_THREAD};
	const int errors[] = {ENOMEM, ENOSPC, EIO};

	for (int i = 0; i < 5; i++)
		for (int e = 0; e < 3; e++)
			resize_with_faults(calls[i], errors[e], e == 0, 1, CHUNKS);
}
END_TEST

START_TEST(shrink_with_faults)
{
	const enum prim_call calls[] = {PRIM_ADVISE, PRIM_FALLOCATE, PRIM_STAT, PRIM_READ};
	const int errors[] = {ENOMEM, EIO};

	for (int i = 0; i < 4; i++)
		for (int e = 0; e < 2; e++)
			resize_with_faults(calls[i], errors[e], 0, 5, 2);
}
END_TEST

/* The memory of a whole grow cannot be had: denied or undone, whatever was asked to be acceptable. */
START_TEST(grow_that_stops_half_way)
{
	struct tide_progress progress;
	struct fx fx;

	fx_open(&fx, CHUNKS, 1);
	for (unsigned k = 1; k < 8; k++) {
		const struct tide_request request = {.target_bytes = CHUNKS * FX_CHUNK,
						     .min_acceptable_bytes = 2 * FX_CHUNK};

		prim_plan_set(PRIM_FALLOCATE, k, UINT32_MAX, ENOSPC, 0);
		FX_OK(tide_pool_resize(fx.s, &request, &progress, &why));
		prim_plan_clear();
		(void)fx_resize(fx.s, 1);
		fx_check(&fx);
	}
	fx_close(&fx);
}
END_TEST

START_TEST(status_without_the_kernels_count)
{
	struct tide_pool_status status;
	struct tide_reason reason;
	struct fx fx;

	fx_open(&fx, 2, 1);
	for (unsigned k = 1; k <= 2; k++) {
		prim_plan_set(PRIM_STAT, k, k, EIO, 0);
		ck_assert_int_eq(tide_pool_status(fx.pool, &status, &reason), TIDE_SYSTEM_ERROR);
	}
	prim_plan_set(PRIM_STAT, 1, 1, EIO, 0);
	ck_assert_int_eq(tide_pool_check(fx.s, &reason), TIDE_SYSTEM_ERROR);
	prim_plan_clear();
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(create_leaves_nothing),	   FX_TEST(attach_leaves_nothing),
		FX_TEST(grow_with_faults),	   FX_TEST(shrink_with_faults),
		FX_TEST(grow_that_stops_half_way), FX_TEST(status_without_the_kernels_count),
	};

	return fx_run("pool-commit-fault", tests, sizeof(tests) / sizeof(tests[0]));
}
