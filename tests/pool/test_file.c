/* SPDX-License-Identifier: PostgreSQL */
/* test_file.c - storage in files: what a host sees of it. */
#include "storage_fixture.h"

#define MANY 150u /* files: more than descriptors are kept */

static char folder[PATH_MAX];

static void set_up(void)
{
	fixture_folder(folder);
}

static void tear_down(void)
{
	fixture_remove(folder);
}

/* Every combination of checksums and io_uring. */
static struct tide_storage open_variant(int variant)
{
	return fixture_file_storage(folder, variant & 1 ? CHECKSUM_AT : NO_CHECKSUM, variant >> 1);
}

START_TEST(batches_come_back)
{
	struct tide_storage storage = open_variant(_i);
	unsigned char *pages = fixture_pages(TIDE_IO_BATCH, PAGE_BYTES);
	unsigned char *before = fixture_pages(TIDE_IO_BATCH, PAGE_BYTES);
	struct tide_io ios[TIDE_IO_BATCH];
	struct tide_reason why;

	for (uint32_t i = 0; i < TIDE_IO_BATCH; i++) {
		ios[i] = fixture_io(i % 3, i, pages + (size_t)i * PAGE_BYTES, 1);
		fixture_fill(ios[i].page, PAGE_BYTES, i % 3, i, 1);
	}
	memcpy(before, pages, (size_t)TIDE_IO_BATCH * PAGE_BYTES);
	ck_assert_int_eq(fixture_transfer(&storage, ios, TIDE_IO_BATCH, &why), 0);
	/* Readers look at a page while it is written. */
	ck_assert_int_eq(memcmp(before, pages, (size_t)TIDE_IO_BATCH * PAGE_BYTES), 0);
	for (uint64_t file = 0; file < 3; file++)
		ck_assert_int_eq(fixture_sync(&storage, file), 0);
	memset(pages, 0x77, (size_t)TIDE_IO_BATCH * PAGE_BYTES);
	for (uint32_t i = 0; i < TIDE_IO_BATCH; i++)
		ios[i] = fixture_io(i % 3, i, ios[i].page, 0);
	ck_assert_int_eq(fixture_transfer(&storage, ios, TIDE_IO_BATCH, &why), 0);
	for (uint32_t i = 0; i < TIDE_IO_BATCH; i++) {
		ck_assert_int_eq(ios[i].code, 0);
		ck_assert(fixture_holds(ios[i].page, PAGE_BYTES, 0, PAGE_BYTES, i % 3, i, 1));
	}
	tide_file_close(&storage);
	ck_assert_ptr_null(storage.self);
	free(before);
	free(pages);
}
END_TEST

START_TEST(unwritten_pages_are_zeros)
{
	struct tide_storage storage = open_variant(_i);
	unsigned char *page = fixture_pages(4, PAGE_BYTES);
	struct tide_reason why;
	struct tide_io ios[4] = {fixture_io(9, 0, page, 0), fixture_io(9, 3, page + PAGE_BYTES, 0),
				 fixture_io(10, 0, page + 2 * PAGE_BYTES, 0),
				 fixture_io(9, UINT64_MAX, page + 3 * PAGE_BYTES, 0)};

	fixture_fill(page, PAGE_BYTES, 9, 2, 1);
	ck_assert_int_eq(fixture_write(&storage, 9, 2, page), 0);
	memset(page, 0x55, 4 * PAGE_BYTES);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 4, &why), 0);
	ck_assert(fixture_is_zero(page, 4 * PAGE_BYTES));
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ios[i].code, 0);
	ck_assert_int_eq(fixture_sync(&storage, 10), 0);
	/* A read does not create a file. */
	snprintf((char *)page, PAGE_BYTES, "%s/10", folder);
	ck_assert_int_ne(access((char *)page, F_OK), 0);
	tide_file_close(&storage);
	free(page);
}
END_TEST

START_TEST(zeros_that_were_written_come_back)
{
	struct tide_storage storage = fixture_file_storage(folder, CHECKSUM_AT, 0);
	unsigned char *page = fixture_pages(1, PAGE_BYTES);

	memset(page, 0, PAGE_BYTES);
	ck_assert_int_eq(fixture_write(&storage, 1, 0, page), 0);
	ck_assert_int_eq(fixture_read(&storage, 1, 0, page), 0);
	memset(page + CHECKSUM_AT, 0, 8);
	ck_assert(fixture_is_zero(page, PAGE_BYTES));
	tide_file_close(&storage);
	free(page);
}
END_TEST

/* Two pages of which one is damaged at some byte, its checksum included, or lies elsewhere. */
START_TEST(damage_is_found)
{
	const uint64_t places[] = {0, CHECKSUM_AT, CHECKSUM_AT + 7, PAGE_BYTES / 2, PAGE_BYTES - 1};
	struct tide_storage storage = fixture_file_storage(folder, CHECKSUM_AT, _i);
	unsigned char *pages = fixture_pages(2, PAGE_BYTES);
	struct tide_io ios[2] = {fixture_io(5, 0, pages, 1),
				 fixture_io(5, 1, pages + PAGE_BYTES, 1)};
	struct tide_reason why;

	fixture_fill(pages, PAGE_BYTES, 5, 0, 1);
	fixture_fill(pages + PAGE_BYTES, PAGE_BYTES, 5, 1, 1);
	ck_assert_int_eq(fixture_transfer(&storage, ios, 2, &why), 0);
	ios[0].write = ios[1].write = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		fixture_flip(folder, 5, PAGE_BYTES + places[i]);
		ck_assert_int_eq(fixture_transfer(&storage, ios, 2, &why), TIDE_PAGE_CORRUPT);
		ck_assert_int_eq(why.code, TIDE_PAGE_CORRUPT);
		ck_assert_int_eq(ios[0].code, 0);
		ck_assert_int_eq(ios[1].code, TIDE_PAGE_CORRUPT);
		ck_assert_msg(strstr(why.message, "page 1 of file 5") &&
				      strstr(why.message, "expected"),
			      "%s", why.message);
		ck_assert(why.hint[0] != '\0');
		fixture_flip(folder, 5, PAGE_BYTES + places[i]);
		ck_assert_int_eq(fixture_transfer(&storage, ios, 2, &why), 0);
	}
	tide_file_close(&storage);
	free(pages);
}
END_TEST

START_TEST(page_in_a_wrong_place_is_found)
{
	struct tide_storage storage = fixture_file_storage(folder, CHECKSUM_AT, 0);
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	int one, two;

	fixture_fill(page, PAGE_BYTES, 1, 0, 1);
	ck_assert_int_eq(fixture_write(&storage, 1, 0, page), 0);
	ck_assert_int_eq(fixture_write(&storage, 2, 0, page), 0);
	one = fixture_open_raw(folder, 1);
	two = fixture_open_raw(folder, 2);
	ck_assert_int_eq(pread(one, page, PAGE_BYTES, 0), PAGE_BYTES);
	ck_assert_int_eq(pwrite(one, page, PAGE_BYTES, PAGE_BYTES), PAGE_BYTES);
	ck_assert_int_eq(pwrite(two, page, PAGE_BYTES, 0), PAGE_BYTES);
	close(one);
	close(two);
	ck_assert_int_eq(fixture_read(&storage, 1, 0, page), 0);
	ck_assert_int_eq(fixture_read(&storage, 1, 1, page), TIDE_PAGE_CORRUPT);
	ck_assert_int_eq(fixture_read(&storage, 2, 0, page), TIDE_PAGE_CORRUPT);
	tide_file_close(&storage);
	free(page);
}
END_TEST

START_TEST(end_of_file_within_a_page)
{
	struct tide_storage storage = open_variant(_i);
	const int checksums = _i & 1;
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	struct tide_reason why;

	fixture_fill(page, PAGE_BYTES, 1, 1, 1);
	ck_assert_int_eq(fixture_write(&storage, 1, 1, page), 0);
	fixture_truncate(folder, 1, PAGE_BYTES + 1000);
	ck_assert_int_eq(fixture_one(&storage, 1, 1, page, 0, &why), TIDE_PAGE_CORRUPT);
	ck_assert_msg(strstr(why.message, "page 1 of file 1") &&
			      strstr(why.message, "the file ends"),
		      "%s", why.message);

	/* What is missing is zeros: complete when the checksum says so; without it who knows. */
	memset(page + 512, 0, PAGE_BYTES - 512);
	ck_assert_int_eq(fixture_write(&storage, 1, 1, page), 0);
	fixture_truncate(folder, 1, PAGE_BYTES + 1000);
	ck_assert_int_eq(fixture_read(&storage, 1, 1, page), checksums ? 0 : TIDE_PAGE_CORRUPT);

	/* A hole that was cut. */
	fixture_truncate(folder, 1, PAGE_BYTES);
	fixture_truncate(folder, 1, PAGE_BYTES + 1000);
	memset(page, 0x33, PAGE_BYTES);
	ck_assert_int_eq(fixture_read(&storage, 1, 1, page), 0);
	ck_assert(fixture_is_zero(page, PAGE_BYTES));
	tide_file_close(&storage);
	free(page);
}
END_TEST

START_TEST(more_files_than_descriptors)
{
	struct tide_storage storage = open_variant(_i);
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	int files = fixture_files();

	for (uint64_t round = 0; round < 2; round++)
		for (uint64_t file = 0; file < MANY; file++) {
			fixture_fill(page, PAGE_BYTES, file, round, round);
			ck_assert_int_eq(fixture_write(&storage, file, round, page), 0);
		}
	ck_assert_int_le(fixture_files(), files + 64);
	for (uint64_t file = 0; file < MANY; file++)
		for (uint64_t round = 0; round < 2; round++) {
			ck_assert_int_eq(fixture_read(&storage, file, round, page), 0);
			ck_assert(
				fixture_holds(page, PAGE_BYTES, 0, PAGE_BYTES, file, round, round));
			ck_assert_int_eq(fixture_sync(&storage, file), 0);
		}
	tide_file_close(&storage);
	free(page);
}
END_TEST

struct worker {
	struct tide_storage *storage;
	uint64_t number;
	int failed;
};

/* Writes and reads batches of pages of its own in files that all share. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	unsigned char *pages = fixture_pages(24, PAGE_BYTES);
	struct tide_io ios[24];
	struct tide_reason why;

	for (uint64_t version = 0; version < 12; version++) {
		for (uint32_t i = 0; i < 24; i++) {
			uint64_t file = (i + 24 * version) % 90;

			ios[i] =
				fixture_io(file, worker->number, pages + (size_t)i * PAGE_BYTES, 1);
			fixture_fill(ios[i].page, PAGE_BYTES, file, worker->number, version);
		}
		worker->failed |= fixture_transfer(worker->storage, ios, 24, &why);
		worker->failed |= fixture_sync(worker->storage, version);
		memset(pages, 0, (size_t)24 * PAGE_BYTES);
		for (uint32_t i = 0; i < 24; i++)
			ios[i].write = 0;
		worker->failed |= fixture_transfer(worker->storage, ios, 24, &why);
		for (uint32_t i = 0; i < 24; i++)
			worker->failed |= !fixture_holds(ios[i].page, PAGE_BYTES, 0, PAGE_BYTES,
							 ios[i].id.file, worker->number, version);
	}
	free(pages);
	return NULL;
}

START_TEST(threads_share_a_storage)
{
	struct tide_storage storage = open_variant(_i);
	struct worker workers[8];
	pthread_t threads[8];

	for (uint64_t i = 0; i < 8; i++) {
		workers[i] = (struct worker){&storage, i, 0};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(workers[i].failed, 0);
	}
	tide_file_close(&storage);
}
END_TEST

/* The child goes on with what it inherited, and neither disturbs the other. */
START_TEST(child_goes_on_with_its_parents_storage)
{
	struct tide_storage storage = open_variant(_i);
	struct worker own = {&storage, 1, 0};
	const int rings = tide_file_uses_io_uring(&storage);
	pid_t child;

	work(&own);
	ck_assert_int_eq(own.failed, 0);
	child = fork();
	if (child == 0) {
		struct worker workers[3];
		pthread_t threads[3];
		int failed = 0;

		for (uint64_t i = 0; i < 3; i++) {
			workers[i] = (struct worker){&storage, 2 + i, 0};
			failed |= pthread_create(&threads[i], NULL, work, &workers[i]);
		}
		for (int i = 0; i < 3; i++) {
			pthread_join(threads[i], NULL);
			failed |= workers[i].failed;
		}
		failed |= tide_file_uses_io_uring(&storage) != rings;
		tide_file_close(&storage);
		_exit(failed != 0);
	}
	work(&own);
	ck_assert_int_eq(fixture_status(child), 0);
	ck_assert_int_eq(own.failed, 0);
	tide_file_close(&storage);
}
END_TEST

START_TEST(every_page_size_and_place_of_the_checksum)
{
	for (uint32_t bytes = 4096; bytes <= 65536; bytes *= 2) {
		const uint32_t offsets[] = {0, 8, bytes / 2, bytes - 8, NO_CHECKSUM};

		for (uint64_t i = 0; i < 5; i++) {
			struct tide_file_config config = {folder, bytes, offsets[i], 1, 0};
			unsigned char *page = fixture_pages(1, bytes);
			struct tide_storage storage;
			struct tide_reason why;

			ck_assert_int_eq(tide_file_open(&config, &storage, &why), 0);
			memset(page, (int)i + 1, bytes);
			ck_assert_int_eq(fixture_write(&storage, bytes, i, page), 0);
			memset(page, 0, bytes);
			ck_assert_int_eq(fixture_read(&storage, bytes, i, page), 0);
			for (uint32_t b = 0; b < bytes; b++)
				ck_assert(page[b] == i + 1 || (b - offsets[i] < 8));
			tide_file_close(&storage);
			free(page);
		}
	}
}
END_TEST

/* The fault storage around this one, with nothing played. */
START_TEST(delayed_transfers)
{
	struct tide_fault_config config = {.page_bytes = PAGE_BYTES, .delay_ns = 1000000};
	struct tide_storage below = fixture_file_storage(folder, CHECKSUM_AT, 1), delayed;
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	struct tide_reason why;

	config.below = below;
	config.per_million[TIDE_FAULT_DELAY] = 1000000;
	ck_assert_int_eq(tide_fault_open(&config, &delayed, &why), 0);
	fixture_fill(page, PAGE_BYTES, 1, 0, 1);
	ck_assert_int_eq(fixture_write(&delayed, 1, 0, page), 0);
	ck_assert_int_eq(fixture_read(&delayed, 1, 0, page), 0);
	ck_assert(fixture_holds(page, PAGE_BYTES, 0, PAGE_BYTES, 1, 0, 1));
	ck_assert_uint_eq(tide_fault_count(&delayed, TIDE_FAULT_DELAY), 2);
	tide_fault_close(&delayed);
	tide_file_close(&below);
	free(page);
}
END_TEST

START_TEST(page_too_far_cannot_be_written)
{
	struct tide_storage storage = fixture_file_storage(folder, CHECKSUM_AT, 0);
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	struct tide_reason why;

	ck_assert_int_eq(fixture_one(&storage, 1, UINT64_MAX, page, 1, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(why.sys_errno, EFBIG);
	tide_file_close(&storage);
	free(page);
}
END_TEST

START_TEST(bad_configurations_are_refused)
{
	const struct {
		struct tide_file_config config;
		int code;
	} bad[] = {
		{{NULL, 8192, 0, 0, 0}, TIDE_BAD_REQUEST},
		{{folder, 0, 0, 0, 0}, TIDE_BAD_REQUEST},
		{{folder, 2048, 0, 0, 0}, TIDE_BAD_REQUEST},
		{{folder, 12288, 0, 0, 0}, TIDE_BAD_REQUEST},
		{{folder, 131072, 0, 0, 0}, TIDE_BAD_REQUEST},
		{{folder, 8192, 4, 0, 0}, TIDE_BAD_REQUEST},
		{{folder, 8192, 8192, 0, 0}, TIDE_BAD_REQUEST},
		{{"/nowhere/at/all", 8192, 0, 0, 0}, TIDE_IO_ERROR},
		{{"/proc/self/status", 8192, 0, 0, 0}, TIDE_IO_ERROR},
	};
	struct tide_storage storage;
	struct tide_reason why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(tide_file_open(&bad[i].config, &storage, &why), bad[i].code);
		ck_assert_ptr_null(storage.self);
	}
	ck_assert_int_eq(tide_file_open(NULL, &storage, &why), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_file_open(&bad[1].config, NULL, &why), TIDE_BAD_REQUEST);
	tide_file_close(NULL);
	tide_file_close(&storage);
}
END_TEST

START_TEST(direct_transfers)
{
	struct tide_file_config config = {folder, PAGE_BYTES, CHECKSUM_AT, _i, 1};
	unsigned char *pages = fixture_pages(3, PAGE_BYTES);
	struct tide_io ios[3];
	struct tide_storage storage;
	struct tide_reason why;
	int code = tide_file_open(&config, &storage, &why);

	if (code == TIDE_BAD_REQUEST) {
		/* Nothing to try on this file system. */
		ck_assert(strstr(why.hint, "direct = 0"));
		free(pages);
		return;
	}
	ck_assert_int_eq(code, 0);
	for (uint32_t i = 0; i < 3; i++) {
		ios[i] = fixture_io(1, i, pages + (size_t)i * PAGE_BYTES, 1);
		fixture_fill(ios[i].page, PAGE_BYTES, 1, i, 1);
	}
	ck_assert_int_eq(fixture_transfer(&storage, ios, 3, &why), 0);
	ck_assert_int_eq(fixture_sync(&storage, 1), 0);
	fixture_truncate(folder, 1, 2 * PAGE_BYTES + 1000);
	for (uint32_t i = 0; i < 3; i++)
		ios[i].write = 0;
	ck_assert_int_eq(fixture_transfer(&storage, ios, 3, &why), TIDE_PAGE_CORRUPT);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(ios[i].code, i == 2 ? TIDE_PAGE_CORRUPT : 0);
	ck_assert(fixture_holds(ios[1].page, PAGE_BYTES, 0, PAGE_BYTES, 1, 1, 1));
	/* Memory that is not aligned is the host's mistake, and an error. */
	code = fixture_one(&storage, 1, 0, pages + 1, 0, &why);
	ck_assert(code == 0 || (code == TIDE_IO_ERROR && why.sys_errno == EINVAL &&
				strstr(why.hint, "direct = 0")));
	tide_file_close(&storage);
	free(pages);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("file");
	TCase *tcase = tcase_create("file");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, batches_come_back, 0, 4);
	tcase_add_loop_test(tcase, unwritten_pages_are_zeros, 0, 4);
	tcase_add_test(tcase, zeros_that_were_written_come_back);
	tcase_add_loop_test(tcase, damage_is_found, 0, 2);
	tcase_add_test(tcase, page_in_a_wrong_place_is_found);
	tcase_add_loop_test(tcase, end_of_file_within_a_page, 0, 4);
	tcase_add_loop_test(tcase, more_files_than_descriptors, 0, 4);
	tcase_add_loop_test(tcase, threads_share_a_storage, 0, 4);
	tcase_add_loop_test(tcase, child_goes_on_with_its_parents_storage, 0, 4);
	tcase_add_test(tcase, every_page_size_and_place_of_the_checksum);
	tcase_add_test(tcase, delayed_transfers);
	tcase_add_test(tcase, page_too_far_cannot_be_written);
	tcase_add_test(tcase, bad_configurations_are_refused);
	tcase_add_loop_test(tcase, direct_transfers, 0, 2);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
