/* SPDX-License-Identifier: PostgreSQL */
/* test_reason.c - outcome codes and reasons. */
#include "fixture.h"

START_TEST(every_code_has_its_word)
{
	ck_assert_str_eq(tide_code_name(TIDE_OK), "OK");
	ck_assert_str_eq(tide_code_name(TIDE_HUGEPAGES_SHORT), "HUGEPAGES_SHORT");
	ck_assert_str_eq(tide_code_name(TIDE_SYSTEM_ERROR), "SYSTEM_ERROR");
	for (int code = TIDE_OK; code >= TIDE_LIMIT_REACHED; code--) {
		ck_assert_ptr_nonnull(tide_code_name(code));
		ck_assert_str_ne(tide_code_name(code), "UNKNOWN");
	}
	ck_assert_str_eq(tide_code_name(1), "UNKNOWN");
	ck_assert_str_eq(tide_code_name(TIDE_LIMIT_REACHED - 1), "UNKNOWN");
	ck_assert_str_eq(tide_code_name(INT32_MIN), "UNKNOWN");
}
END_TEST

START_TEST(what_may_pass_by_itself_is_retryable)
{
	ck_assert_int_eq(tide_code_retryable(TIDE_OK), 0);
	ck_assert_int_eq(tide_code_retryable(TIDE_BELOW_MIN), 0);
	ck_assert_int_eq(tide_code_retryable(TIDE_HUGEPAGES_UNAVAILABLE), 0);
	ck_assert_int_eq(tide_code_retryable(TIDE_HUGEPAGES_SHORT), 1);
	ck_assert_int_eq(tide_code_retryable(TIDE_PINNED_BUFFERS), 1);
	ck_assert_int_eq(tide_code_retryable(TIDE_VERIFY_MISMATCH), 1);
	ck_assert_int_eq(tide_code_retryable(17), 0);
	ck_assert_int_eq(tide_code_retryable(INT32_MIN), 0);
}
END_TEST

START_TEST(a_reason_replaces_the_one_before)
{
	struct tide_reason why;

	memset(&why, 'x', sizeof(why));
	errno = EDOM;
	ck_assert_int_eq(tide_reason_set(&why, TIDE_SYSTEM_ERROR, ENOSPC, "%d pages", 7),
			 TIDE_SYSTEM_ERROR);
	ck_assert_int_eq(errno, EDOM);
	ck_assert_str_eq(why.message, "7 pages: No space left on device");
	ck_assert_int_eq(why.sys_errno, ENOSPC);
	ck_assert_uint_eq(why.want_bytes, 0);
	ck_assert_str_eq(why.hint, "");
	tide_reason_bytes(&why, 5, 3);
	tide_reason_hint(&why, "add %s", "disks");
	ck_assert_int_eq(why.code, TIDE_SYSTEM_ERROR);
	ck_assert_uint_eq(why.want_bytes, 5);
	ck_assert_uint_eq(why.have_bytes, 3);
	ck_assert_str_eq(why.hint, "add disks");
	ck_assert_int_eq(tide_reason_set(&why, TIDE_CANCELLED, 0, "plain"), TIDE_CANCELLED);
	ck_assert_str_eq(why.message, "plain");
	ck_assert_str_eq(why.hint, "");
}
END_TEST

START_TEST(text_too_long_is_cut_and_nobody_to_tell_is_fine)
{
	struct tide_reason why;
	char text[2 * sizeof(why.message)];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	tide_reason_set(&why, TIDE_HOST_ERROR, EIO, "%s", text);
	tide_reason_hint(&why, "%s", text);
	ck_assert_uint_eq(strlen(why.message), sizeof(why.message) - 1);
	ck_assert_uint_eq(strlen(why.hint), sizeof(why.hint) - 1);
	ck_assert_int_eq(why.code, TIDE_HOST_ERROR);
	tide_reason_set(&why, TIDE_HOST_ERROR, 123456, "odd");
	ck_assert_str_eq(why.message, "odd: unknown errno");
	ck_assert_int_eq(tide_reason_set(NULL, TIDE_HOST_ERROR, EIO, "x"), TIDE_HOST_ERROR);
	tide_reason_bytes(NULL, 1, 1);
	tide_reason_hint(NULL, "x");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reason");
	TCase *tcase = tcase_create("reason");

	tcase_add_test(tcase, every_code_has_its_word);
	tcase_add_test(tcase, what_may_pass_by_itself_is_retryable);
	tcase_add_test(tcase, a_reason_replaces_the_one_before);
	tcase_add_test(tcase, text_too_long_is_cut_and_nobody_to_tell_is_fine);
	suite_add_tcase(suite, tcase);
	return fixture_run(suite);
}
