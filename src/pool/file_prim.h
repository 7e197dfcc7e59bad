/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/file_prim.h - every system call of the storages, behind one thin layer.
 *
 * Each returns 0 (or a count) or -errno and does nothing else. The functions are weak: a test
 * program defines its own of the same name to make the n-th call fail or stop half-way. What the
 * memory layer has already (memfd, map, truncate, close) is in memory/prim.h.
 */
#ifndef POOL_FILE_PRIM_H
#define POOL_FILE_PRIM_H

#include <liburing.h>
#include <stddef.h>
#include <stdint.h>

int tide_prim_open_directory(const char *path, int *fd);
int tide_prim_open_at(int directory, const char *name, int flags, int *fd);
int64_t tide_prim_pread(int fd, void *to, size_t bytes, uint64_t offset);
int64_t tide_prim_pwrite(int fd, const void *from, size_t bytes, uint64_t offset);
int tide_prim_fdatasync(int fd);
int tide_prim_fsync(int fd);

/* Memory of @bytes, a multiple of @alignment, zeroed; given back with free(). */
int tide_prim_allocate(size_t alignment, size_t bytes, void **out);

/* Sleeps the whole time. */
void tide_prim_sleep(uint64_t ns);

int tide_prim_ring_open(unsigned entries, struct io_uring *ring);
void tide_prim_ring_close(struct io_uring *ring);
int tide_prim_ring_submit(struct io_uring *ring);
int tide_prim_ring_wait(struct io_uring *ring, struct io_uring_cqe **cqe);

#endif /* POOL_FILE_PRIM_H */
