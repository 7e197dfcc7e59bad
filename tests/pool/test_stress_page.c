/* SPDX-License-Identifier: PostgreSQL */
/* test_stress_page.c - the pages of tidestress: what is changed in one is found. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/tidestress/page.c"

#define PAGE_BYTES 4096u

static const struct tide_page_id id = {.file = 3, .page = 1234567};

static uint64_t page[PAGE_BYTES / sizeof(uint64_t)];

static enum page_verdict verify(struct page_seen *seen)
{
	return page_verify(page, PAGE_BYTES, &id, 0, NULL, seen);
}

static void write_version(uint64_t version)
{
	page_write(page, PAGE_BYTES, &id, version, 42);
}

START_TEST(a_page_written_is_good)
{
	struct page_seen seen;

	write_version(17);
	ck_assert_int_eq(verify(&seen), PAGE_GOOD);
	ck_assert_uint_eq(seen.version, 17);
	ck_assert_uint_eq(seen.writer, 42);
	ck_assert(page_is(page, &id));
}
END_TEST

START_TEST(zeros_are_a_page_never_written)
{
	struct page_seen seen;

	memset(page, 0, sizeof(page));
	ck_assert_int_eq(verify(&seen), PAGE_ZERO);
	ck_assert_uint_eq(seen.version, 0);
	ck_assert(page_is(page, &id));
}
END_TEST

START_TEST(every_byte_but_the_checksum_of_storage_counts)
{
	unsigned char *bytes = (unsigned char *)page;
	struct page_seen seen;

	for (int zero = 0; zero < 2; zero++)
		for (uint32_t i = 0; i < PAGE_BYTES; i++) {
			int free_byte = i / 8 == PAGE_STORAGE_CHECKSUM / 8;

			if (zero)
				memset(page, 0, sizeof(page));
			else
				write_version(5);
			bytes[i] ^= 0x10;
			ck_assert_msg((verify(&seen) <= PAGE_ZERO) == free_byte, "byte %u", i);
		}
}
END_TEST

START_TEST(the_first_wrong_word_is_named)
{
	struct page_seen seen;
	char text[400];

	write_version(5);
	page[100]++;
	page[200]++;
	ck_assert_int_eq(verify(&seen), PAGE_TORN);
	ck_assert_uint_eq(seen.offset, 800);
	ck_assert_uint_eq(seen.found, seen.expected + 1);
	page_describe(&seen, text, sizeof(text));
	ck_assert_ptr_nonnull(strstr(text, "is torn"));
	ck_assert_ptr_nonnull(strstr(text, "version 5"));
	ck_assert_ptr_nonnull(strstr(text, "byte 800"));
}
END_TEST

START_TEST(halves_of_two_versions_are_torn)
{
	uint64_t older[PAGE_BYTES / sizeof(uint64_t)];
	struct page_seen seen;

	write_version(5);
	memcpy(older, page, sizeof(page));
	write_version(6);
	memcpy((char *)page + PAGE_BYTES / 2, (char *)older + PAGE_BYTES / 2, PAGE_BYTES / 2);
	ck_assert_int_eq(verify(&seen), PAGE_TORN);
	ck_assert_uint_eq(seen.offset, PAGE_BYTES / 2);
}
END_TEST

START_TEST(another_page_is_not_this_one)
{
	const struct tide_page_id others[] = {{3, 1234568}, {2, 1234567}};
	struct page_seen seen;

	for (int i = 0; i < 2; i++) {
		page_write(page, PAGE_BYTES, &others[i], 5, 42);
		ck_assert_int_eq(verify(&seen), PAGE_OF_ANOTHER);
		ck_assert(!page_is(page, &id));
	}
}
END_TEST

START_TEST(a_page_half_written_is_found)
{
	struct random random = random_stream(1, 2, 3);
	struct page_seen seen;

	for (uint64_t version = 2; version < 1000; version++) {
		write_version(version - 1);
		page_write_half(page, PAGE_BYTES, version, &random);
		ck_assert_int_eq(verify(&seen), PAGE_TORN);
		ck_assert(page_is(page, &id));
	}
}
END_TEST

START_TEST(a_sample_finds_what_it_looks_at)
{
	struct random random = random_stream(1, 2, 3);
	struct page_seen seen;
	int found = 0;

	write_version(5);
	ck_assert_int_eq(page_verify(page, PAGE_BYTES, &id, 16, &random, &seen), PAGE_GOOD);
	for (size_t i = HEAD_WORDS; i < PAGE_BYTES / sizeof(uint64_t); i += 2)
		page[i] ^= 1;
	for (int i = 0; i < 10; i++)
		found += page_verify(page, PAGE_BYTES, &id, 16, &random, &seen) == PAGE_TORN;
	ck_assert_int_ge(found, 9);
}
END_TEST

START_TEST(only_the_checksum_is_wrong)
{
	struct page_seen seen;

	write_version(5);
	page[4]++; /* the writer, which no content follows from */
	ck_assert_int_eq(verify(&seen), PAGE_MISSUMMED);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("page");
	Suite *suite = suite_create("tidestress page");
	SRunner *runner;
	int failed;

	tcase_add_test(tcase, a_page_written_is_good);
	tcase_add_test(tcase, zeros_are_a_page_never_written);
	tcase_add_test(tcase, every_byte_but_the_checksum_of_storage_counts);
	tcase_add_test(tcase, the_first_wrong_word_is_named);
	tcase_add_test(tcase, halves_of_two_versions_are_torn);
	tcase_add_test(tcase, another_page_is_not_this_one);
	tcase_add_test(tcase, a_page_half_written_is_found);
	tcase_add_test(tcase, a_sample_finds_what_it_looks_at);
	tcase_add_test(tcase, only_the_checksum_is_wrong);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
