/* SPDX-License-Identifier: PostgreSQL */
/*
 * prim.h - every system call of the memory layer, behind one thin layer.
 *
 * Each returns 0 or -errno and does nothing else. The functions are weak: a test program defines
 * its own of the same name to make the n-th call fail or stop half-way; nothing is paid for that here.
 */
#ifndef TIDE_MEMORY_PRIM_H
#define TIDE_MEMORY_PRIM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statfs.h>

int tide_prim_memfd(const char *name, unsigned flags, int *fd);
int tide_prim_dup(int fd, int *copy);
void tide_prim_close(int fd);
int tide_prim_stat(int fd, struct stat *out);
int tide_prim_statfs(int fd, struct statfs *out);
int tide_prim_truncate(int fd, uint64_t bytes);
int tide_prim_map(void *address, uint64_t bytes, int protection, int flags, int fd, void **out);
int tide_prim_unmap(void *address, uint64_t bytes);
int tide_prim_advise(void *address, uint64_t bytes, int advice);
int tide_prim_fallocate(int fd, int mode, uint64_t offset, uint64_t bytes);
int tide_prim_bind(void *address, uint64_t bytes, int mode, const unsigned long *mask,
		   unsigned long mask_bits);
int tide_prim_get_policy(int *mode, unsigned long *mask, unsigned long mask_bits);
int tide_prim_set_policy(int mode, const unsigned long *mask, unsigned long mask_bits);
int tide_prim_address_limit(uint64_t *bytes);
int tide_prim_thread(pthread_t *out, void *(*run)(void *), void *argument);

/* The whole of a small file as a string; what does not fit into @size is cut. */
int tide_prim_read(const char *path, char *text, size_t size);

#endif /* TIDE_MEMORY_PRIM_H */
