/* SPDX-License-Identifier: PostgreSQL */
/* fixture.h - what tests of the memory layer stand on: played machines, huge pages, mounts. */
#ifndef TIDE_TESTS_FIXTURE_H
#define TIDE_TESTS_FIXTURE_H

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidepool/region.h>

#define MIB (1ull << 20)
#define GIB_BYTES (1ull << 30)
#define HUGE_BYTES (2 * MIB)
#define TEST_SKIPPED 77

/* The address sanitizer needs address space of its own. */
#if defined(__SANITIZE_ADDRESS__)
#define FIXTURE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIXTURE_SANITIZED
#endif
#endif

#define OVERCOMMIT_FILE "/proc/sys/vm/nr_overcommit_hugepages"

/*
 * Allow @pages more huge pages to be taken from the machine (negative: fewer), relative to what is
 * found, so that others on the machine are not disturbed. 0 or -errno.
 */
static inline int fixture_huge_pages(long pages)
{
	char text[32] = "";
	ssize_t length;
	int rc = 0;
	int fd = open(OVERCOMMIT_FILE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	flock(fd, LOCK_EX);
	length = pread(fd, text, sizeof(text) - 1, 0);
	if (length > 0) {
		length = snprintf(text, sizeof(text), "%ld\n", atol(text) + pages);
		if (pwrite(fd, text, (size_t)length, 0) != length)
			rc = -errno;
	}
	close(fd);
	return rc;
}

/* A folder of its own below the temporary files, for a played machine or a mount. */
static inline void fixture_folder(char folder[64])
{
	snprintf(folder, 64, "/tmp/tidepool-test-XXXXXX");
	if (!mkdtemp(folder))
		abort(); /* also called outside of tests, where check has no assertions */
}

static inline int fixture_remove_one(const char *path, const struct stat *status, int type,
				     struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

static inline void fixture_remove(const char *folder)
{
	(void)nftw(folder, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Write a file of a played machine, with the folders it needs. */
static inline void fixture_write(const char *folder, const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
}

static inline struct tide_region_config fixture_config(enum tide_huge_policy huge,
						       uint64_t max_bytes)
{
	return (struct tide_region_config){
		.name = "tidepool-test", .max_bytes = max_bytes, .huge = huge, .fd = -1};
}

static inline uint64_t fixture_audit(const struct tide_region *region)
{
	struct tide_reason why;
	uint64_t bytes = 0;

	ck_assert_int_eq(tide_region_audit(region, &bytes, &why), 0);
	return bytes;
}

static inline struct tide_region *fixture_reserve(const struct tide_region_config *config)
{
	struct tide_region *region = NULL;
	struct tide_reason why = {0};
	int code = tide_region_reserve(config, 0, &region, &why);

	ck_assert_msg(code == 0, "reserve: %s: %s", tide_code_name(code), why.message);
	return region;
}

static inline void fixture_commit(struct tide_region *region, uint64_t offset, uint64_t bytes)
{
	struct tide_range range = {offset, bytes};
	struct tide_reason why = {0};
	int code = tide_region_commit(region, &range, 1, &why);

	ck_assert_msg(code == 0, "commit: %s: %s", tide_code_name(code), why.message);
}

static inline void fixture_decommit(struct tide_region *region, uint64_t offset, uint64_t bytes)
{
	struct tide_range range = {offset, bytes};
	struct tide_reason why = {0};
	int code = tide_region_decommit(region, &range, 1, &why);

	ck_assert_msg(code == 0, "decommit: %s: %s", tide_code_name(code), why.message);
}

/*
 * A machine whose kernel has no explicit huge pages but gives transparent ones to shmem: what
 * makes the policy "try" choose them. The rest of the machine is the real one.
 */
static inline struct tide_machine fixture_thp_machine(const char *folder)
{
	fixture_write(folder, "kernel/mm/transparent_hugepage/shmem_enabled",
		      "always within_size [advise] never deny force\n");
	return (struct tide_machine){.sys_root = folder};
}

/* Can the huge pages that a test wants be had on this machine? */
static inline int fixture_has_huge_pages(uint64_t bytes)
{
	struct tide_verdict verdict;

	return tide_preflight(NULL, TIDE_BACKING_HUGETLB, HUGE_BYTES, bytes, &verdict) == 0;
}

/*
 * Mappings of this process that lie in [base, base + bytes). With bytes 0 all of them, but under a
 * sanitizer, which maps memory of its own at any time, only those of regions.
 */
static inline int fixture_mappings(const void *base, uint64_t bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	const unsigned long long begin = (uintptr_t)base;
	unsigned long long first, last;
	char line[4096];
	int count = 0;

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx", &first, &last) != 2)
			continue;
#ifdef FIXTURE_SANITIZED
		if (bytes == 0 && !strstr(line, "memfd:"))
			continue;
#endif
		count += bytes == 0 || (first < begin + bytes && last > begin);
	}
	fclose(maps);
	return count;
}

/* Open file descriptors of this process. */
static inline int fixture_files(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Run one suite; the exit status of a test program. */
static inline int fixture_run(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif /* TIDE_TESTS_FIXTURE_H */
