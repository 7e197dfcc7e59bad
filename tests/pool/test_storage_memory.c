/* SPDX-License-Identifier: PostgreSQL */
/* test_storage_memory.c - storage in a memfd. */
#include "../memory/faulty_prim.h"
#include "faulty_file_prim.h"
#include "storage_fixture.h"

#define FILES 3u
#define PAGES 5u

static struct tide_storage open_memory(void)
{
	struct tide_storage storage;
	struct tide_reason why = {0};
	int code = tide_memory_open(FILES, PAGES, PAGE_BYTES, &storage, &why);

	ck_assert_msg(code == 0, "%s", why.message);
	return storage;
}

START_TEST(pages_come_back)
{
	struct tide_storage storage = open_memory();
	unsigned char *pages = fixture_pages(FILES * PAGES, PAGE_BYTES);
	struct tide_io ios[FILES * PAGES];
	struct tide_reason why;

	ck_assert_int_eq(fixture_read(&storage, 1, 1, pages), 0);
	ck_assert(fixture_is_zero(pages, PAGE_BYTES));
	for (uint32_t i = 0; i < FILES * PAGES; i++) {
		ios[i] = fixture_io(i / PAGES, i % PAGES, pages + (size_t)i * PAGE_BYTES, 1);
		fixture_fill(ios[i].page, PAGE_BYTES, i / PAGES, i % PAGES, 1);
	}
	ck_assert_int_eq(fixture_transfer(&storage, ios, FILES * PAGES, &why), 0);
	ck_assert_int_eq(fixture_sync(&storage, 0), 0);
	memset(pages, 0, (size_t)FILES * PAGES * PAGE_BYTES);
	for (uint32_t i = 0; i < FILES * PAGES; i++)
		ios[i].write = 0;
	ck_assert_int_eq(fixture_transfer(&storage, ios, FILES * PAGES, &why), 0);
	for (uint32_t i = 0; i < FILES * PAGES; i++) {
		ck_assert_int_eq(ios[i].code, 0);
		ck_assert(fixture_holds(ios[i].page, PAGE_BYTES, 0, PAGE_BYTES, i / PAGES,
					i % PAGES, 1));
	}
	tide_memory_close(&storage);
	ck_assert_ptr_null(storage.self);
	free(pages);
}
END_TEST

START_TEST(outside_is_an_error_of_that_page_alone)
{
	struct tide_storage storage = open_memory();
	unsigned char *pages = fixture_pages(4, PAGE_BYTES);
	struct tide_io ios[4] = {fixture_io(0, PAGES, pages, 0),
				 fixture_io(0, 0, pages + PAGE_BYTES, 0),
				 fixture_io(FILES, 0, pages + 2 * PAGE_BYTES, 1),
				 fixture_io(UINT64_MAX, UINT64_MAX, pages + 3 * PAGE_BYTES, 1)};
	struct tide_reason why;

	ck_assert_int_eq(fixture_transfer(&storage, ios, 4, &why), TIDE_IO_ERROR);
	ck_assert_int_eq(ios[0].code, TIDE_IO_ERROR);
	ck_assert_int_eq(ios[1].code, 0);
	ck_assert_int_eq(ios[2].code, TIDE_IO_ERROR);
	ck_assert_int_eq(ios[3].code, TIDE_IO_ERROR);
	ck_assert_msg(strstr(why.message, "page 5 of file 0"), "%s", why.message);
	tide_memory_close(&storage);
	free(pages);
}
END_TEST

START_TEST(child_sees_what_the_parent_wrote_and_back)
{
	struct tide_storage storage = open_memory();
	unsigned char *page = fixture_pages(1, PAGE_BYTES);
	pid_t child;

	fixture_fill(page, PAGE_BYTES, 1, 2, 3);
	ck_assert_int_eq(fixture_write(&storage, 1, 2, page), 0);
	child = fork();
	if (child == 0) {
		int ok;

		memset(page, 0, PAGE_BYTES);
		ok = fixture_read(&storage, 1, 2, page) == 0 &&
		     fixture_holds(page, PAGE_BYTES, 0, PAGE_BYTES, 1, 2, 3);
		fixture_fill(page, PAGE_BYTES, 2, 2, 4);
		ok = ok && fixture_write(&storage, 2, 2, page) == 0;
		_exit(!ok);
	}
	ck_assert_int_eq(fixture_status(child), 0);
	ck_assert_int_eq(fixture_read(&storage, 2, 2, page), 0);
	ck_assert(fixture_holds(page, PAGE_BYTES, 0, PAGE_BYTES, 2, 2, 4));
	tide_memory_close(&storage);
	free(page);
}
END_TEST

START_TEST(impossible_sizes_are_refused)
{
	const struct {
		uint64_t n_files, n_pages;
		uint32_t page_bytes;
	} bad[] = {
		{1, 1, 0},
		{1, 1, 2048},
		{1, 1, 131072},
		{1, 1, 12288},
		{0, 1, 4096},
		{1, 0, 4096},
		{UINT64_MAX, 2, 4096},
		{1, UINT64_MAX / 2, 4096},
		{1, UINT64_C(1) << 50, 4096},
	};
	struct tide_storage storage;
	struct tide_reason why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(tide_memory_open(bad[i].n_files, bad[i].n_pages, bad[i].page_bytes,
						  &storage, &why),
				 TIDE_BAD_REQUEST);
		ck_assert_ptr_null(storage.self);
	}
	ck_assert_int_eq(tide_memory_open(1, 1, 4096, NULL, &why), TIDE_BAD_REQUEST);
	tide_memory_close(NULL);
	tide_memory_close(&storage);
}
END_TEST

START_TEST(every_call_of_open_may_fail)
{
	const struct {
		enum prim_call call;
		int error, code;
	} cases[] = {{PRIM_MEMFD, EMFILE, TIDE_SYSTEM_ERROR},
		     {PRIM_MEMFD, ENOMEM, TIDE_NOT_ENOUGH_MEMORY},
		     {PRIM_TRUNCATE, EFBIG, TIDE_SYSTEM_ERROR},
		     {PRIM_MAP, ENOMEM, TIDE_NOT_ENOUGH_MEMORY}};
	int files = fixture_files();
	struct tide_storage storage;
	struct tide_reason why;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		prim_plan_set(cases[i].call, 1, 1, cases[i].error, 0);
		ck_assert_int_eq(tide_memory_open(1, 1, 4096, &storage, &why), cases[i].code);
		ck_assert_int_eq(why.sys_errno, cases[i].error);
		ck_assert_uint_eq(why.want_bytes, 4096);
		ck_assert_ptr_null(storage.self);
	}
	prim_plan_clear();
	file_plan_set(FILE_ALLOCATE, 1, 1, ENOMEM, FILE_FAILS);
	ck_assert_int_eq(tide_memory_open(1, 1, 4096, &storage, &why), TIDE_NOT_ENOUGH_MEMORY);
	file_plan_clear();
	ck_assert_int_eq(fixture_files(), files);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("storage_memory");
	TCase *tcase = tcase_create("storage_memory");

	tcase_add_test(tcase, pages_come_back);
	tcase_add_test(tcase, outside_is_an_error_of_that_page_alone);
	tcase_add_test(tcase, child_sees_what_the_parent_wrote_and_back);
	tcase_add_test(tcase, impossible_sizes_are_refused);
	tcase_add_test(tcase, every_call_of_open_may_fail);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
