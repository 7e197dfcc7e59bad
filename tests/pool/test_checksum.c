/* SPDX-License-Identifier: PostgreSQL */
/* test_checksum.c - the checksum that a page carries. */
#include "pool/checksum.h"
#include "storage_fixture.h"

#define BYTES 4096u

static const struct tide_page_id id = {7, 11};
static const uint32_t offsets[] = {0, CHECKSUM_AT, BYTES / 2, BYTES - 8};

START_TEST(every_bit_but_its_own_counts)
{
	const uint32_t offset = offsets[_i];
	unsigned char *page = fixture_pages(1, BYTES);
	uint64_t whole;

	fixture_fill(page, BYTES, 1, 2, 3);
	whole = checksum_of(page, BYTES, offset, &id);
	for (uint32_t bit = 0; bit < 8 * BYTES; bit++) {
		int own = bit / 8 >= offset && bit / 8 < offset + 8;

		page[bit / 8] ^= (unsigned char)(1 << bit % 8);
		ck_assert_int_eq(checksum_of(page, BYTES, offset, &id) == whole, own);
		page[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	free(page);
}
END_TEST

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

START_TEST(id_counts)
{
	unsigned char *page = fixture_pages(1, BYTES);
	uint64_t seen[64 * 64];
	uint32_t n = 0;

	memset(page, 0, BYTES);
	for (uint64_t file = 0; file < 64; file++)
		for (uint64_t number = 0; number < 64; number++) {
			struct tide_page_id other = {file, number};

			seen[n] = checksum_of(page, BYTES, CHECKSUM_AT, &other);
			ck_assert_uint_ne(seen[n], 0);
			n++;
		}
	qsort(seen, n, sizeof(seen[0]), compare);
	for (uint32_t i = 1; i < n; i++)
		ck_assert_uint_ne(seen[i - 1], seen[i]);
	free(page);
}
END_TEST

START_TEST(what_is_put_is_got)
{
	const uint64_t value = UINT64_C(0x0123456789abcdef);
	unsigned char *page = fixture_pages(1, BYTES);

	for (uint32_t i = 0; i < 4; i++) {
		checksum_put(page, offsets[i], value);
		ck_assert_uint_eq(checksum_get(page, offsets[i]), value);
		ck_assert_uint_eq(page[offsets[i]], 0xef);
		ck_assert_uint_eq(page[offsets[i] + 7], 0x01);
	}
	free(page);
}
END_TEST

START_TEST(only_zeros_are_a_hole)
{
	unsigned char *page = fixture_pages(1, BYTES);

	memset(page, 0, BYTES);
	ck_assert_int_eq(checksum_is_hole(page, BYTES), 1);
	for (uint32_t i = 0; i < BYTES; i++) {
		page[i] = 1;
		ck_assert_int_eq(checksum_is_hole(page, BYTES), 0);
		page[i] = 0;
	}
	memset(page, 1, BYTES);
	ck_assert_int_eq(checksum_is_hole(page, BYTES), 0);
	free(page);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("checksum");
	TCase *tcase = tcase_create("checksum");

	tcase_add_loop_test(tcase, every_bit_but_its_own_counts, 0, 4);
	tcase_add_test(tcase, id_counts);
	tcase_add_test(tcase, what_is_put_is_got);
	tcase_add_test(tcase, only_zeros_are_a_hole);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
