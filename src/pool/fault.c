/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/fault.c - a storage that fails on purpose, around one that works.
 *
 * Every transfer and every sync draws one number of a sequence that depends on the seed only; so
 * the same calls in the same order suffer the same. With several threads the order of their calls
 * decides who suffers. There is no lock: the sequence is a counter that is hashed, and a thread
 * that is delayed or forked away holds nobody up.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <tidepool/pool.h>

#include "pool/file.h"
#include "pool/file_prim.h"
#include "pool/storage.h"

#define MILLION 1000000u
#define GARBAGE 0xa5

struct fault_storage {
	struct tide_fault_config config;
	_Atomic uint64_t n_drawn;
	_Atomic uint32_t forced[TIDE_FAULTS]; /* still to happen, whatever is drawn */
	_Atomic uint64_t happened[TIDE_FAULTS];
};

/* --- which fault ------------------------------------------------------------------------------ */

/* A number below a million: splitmix64, whose n-th number can be had from n. */
static uint32_t draw(struct fault_storage *fault)
{
	uint64_t n = atomic_fetch_add_explicit(&fault->n_drawn, 1, memory_order_relaxed) + 1;
	uint64_t z = fault->config.seed + n * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	return (uint32_t)((z >> 32) * MILLION >> 32);
}

/* Take one of the forced ones, if any is left. */
static int take_forced(struct fault_storage *fault, enum tide_fault kind)
{
	uint32_t left = atomic_load_explicit(&fault->forced[kind], memory_order_relaxed);

	while (left > 0)
		if (atomic_compare_exchange_weak_explicit(&fault->forced[kind], &left, left - 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return 1;
	return 0;
}

static int can_happen(enum tide_fault kind, int write)
{
	if (kind == TIDE_FAULT_ENOSPC || kind == TIDE_FAULT_TORN)
		return write;
	return kind != TIDE_FAULT_SYNC;
}

/* What is to happen to a transfer; TIDE_FAULTS = nothing. */
static enum tide_fault choose(struct fault_storage *fault, int write)
{
	uint32_t number = draw(fault);
	uint32_t below = 0;

	for (enum tide_fault kind = 0; kind < TIDE_FAULTS; kind++)
		if (can_happen(kind, write) && take_forced(fault, kind))
			return kind;
	for (enum tide_fault kind = 0; kind < TIDE_FAULTS; kind++) {
		if (kind == TIDE_FAULT_SYNC)
			continue;
		below += fault->config.per_million[kind];
		if (number < below)
			return can_happen(kind, write) ? kind : TIDE_FAULTS;
	}
	return TIDE_FAULTS;
}

static void count(struct fault_storage *fault, enum tide_fault kind)
{
	atomic_fetch_add_explicit(&fault->happened[kind], 1, memory_order_relaxed);
}

/* --- what it does ----------------------------------------------------------------------------- */

static int transfer_below(const struct fault_storage *fault, struct tide_io *ios, uint32_t n,
			  struct tide_reason *why)
{
	const struct tide_storage *below = &fault->config.below;

	return below->ops->transfer(below->self, ios, n, why);
}

/* The first half of the page as it is to be, the second as it is; if it fails it fails. */
static void write_half(const struct fault_storage *fault, const struct tide_io *io)
{
	const uint32_t bytes = fault->config.page_bytes;
	struct tide_io merged = *io;

	/* A merged page would get a checksum that is right. */
	if (file_is(&fault->config.below)) {
		(void)file_tear(&fault->config.below, io, NULL);
		return;
	}
	if (tide_prim_allocate(bytes, bytes, &merged.page) != 0)
		return;
	merged.write = 0;
	if (transfer_below(fault, &merged, 1, NULL) == TIDE_OK) {
		memcpy(merged.page, io->page, bytes / 2);
		merged.write = 1;
		(void)transfer_below(fault, &merged, 1, NULL);
	}
	free(merged.page);
}

static void read_half(const struct fault_storage *fault, const struct tide_io *io)
{
	const uint32_t bytes = fault->config.page_bytes;
	struct tide_io whole = *io;

	(void)transfer_below(fault, &whole, 1, NULL);
	memset((unsigned char *)io->page + bytes / 2, GARBAGE, bytes - bytes / 2);
}

/* Fails with @kind. */
static int fail(struct fault_storage *fault, struct tide_io *io, enum tide_fault kind,
		struct tide_reason *why)
{
	static const char *const words[] = {[TIDE_FAULT_EIO] = "not transferred",
					    [TIDE_FAULT_ENOSPC] = "not written",
					    [TIDE_FAULT_SHORT] = "transferred by half",
					    [TIDE_FAULT_TORN] = "torn"};

	if (kind == TIDE_FAULT_SHORT && !io->write)
		read_half(fault, io);
	else if (kind == TIDE_FAULT_SHORT || kind == TIDE_FAULT_TORN)
		write_half(fault, io);
	count(fault, kind);
	io->code = tide_reason_set(why, TIDE_IO_ERROR, kind == TIDE_FAULT_ENOSPC ? ENOSPC : EIO,
				   "injected fault: page %" PRIu64 " of file %" PRIu64 " was %s",
				   io->id.page, io->id.file, words[kind]);
	return io->code;
}

/* At most TIDE_IO_BATCH of them: those that fail here, then the others below, in one call. */
static int transfer_batch(struct fault_storage *fault, struct tide_io *ios, uint32_t n,
			  struct tide_reason *why)
{
	struct tide_io healthy[TIDE_IO_BATCH];
	uint32_t place[TIDE_IO_BATCH];
	uint32_t n_healthy = 0, n_delayed = 0;
	int code = TIDE_OK;
	int below_code;

	for (uint32_t i = 0; i < n; i++) {
		enum tide_fault kind = choose(fault, ios[i].write);

		if (kind != TIDE_FAULTS && kind != TIDE_FAULT_DELAY) {
			(void)fail(fault, &ios[i], kind, code == TIDE_OK ? why : NULL);
			code = TIDE_IO_ERROR;
			continue;
		}
		if (kind == TIDE_FAULT_DELAY) {
			count(fault, kind);
			n_delayed++;
		}
		place[n_healthy] = i;
		healthy[n_healthy++] = ios[i];
	}
	if (n_delayed > 0)
		tide_prim_sleep(fault->config.delay_ns);
	if (n_healthy == 0)
		return code;
	below_code = transfer_below(fault, healthy, n_healthy, code == TIDE_OK ? why : NULL);
	for (uint32_t i = 0; i < n_healthy; i++)
		ios[place[i]].code = healthy[i].code;
	return code != TIDE_OK ? code : below_code;
}

static int fault_transfer(void *storage, struct tide_io *ios, uint32_t n, struct tide_reason *why)
{
	int code = TIDE_OK;

	for (uint32_t i = 0; i < n;) {
		uint32_t batch = n - i < TIDE_IO_BATCH ? n - i : TIDE_IO_BATCH;
		int rc = transfer_batch(storage, ios + i, batch, code == TIDE_OK ? why : NULL);

		if (code == TIDE_OK)
			code = rc;
		i += batch;
	}
	return code;
}

static int fault_sync(void *storage, uint64_t file, struct tide_reason *why)
{
	struct fault_storage *fault = storage;
	const struct tide_storage *below = &fault->config.below;
	const uint32_t number = draw(fault);

	if (!take_forced(fault, TIDE_FAULT_SYNC) &&
	    number >= fault->config.per_million[TIDE_FAULT_SYNC])
		return below->ops->sync(below->self, file, why);
	count(fault, TIDE_FAULT_SYNC);
	return tide_reason_set(why, TIDE_IO_ERROR, EIO,
			       "injected fault: file %" PRIu64 " was not synced", file);
}

static const struct tide_storage_ops fault_ops = {.transfer = fault_transfer, .sync = fault_sync};

/* --- opening ---------------------------------------------------------------------------------- */

static int check_config(const struct tide_fault_config *config, struct tide_reason *why)
{
	uint64_t sum = 0;

	if (!config->below.ops)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "a fault storage needs a storage below it");
	if (storage_check_page_bytes(config->page_bytes, why) != TIDE_OK)
		return TIDE_BAD_REQUEST;
	for (int kind = 0; kind < TIDE_FAULTS; kind++)
		if (kind != TIDE_FAULT_SYNC)
			sum += config->per_million[kind];
	if (sum > MILLION || config->per_million[TIDE_FAULT_SYNC] > MILLION)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "the chances of all faults of a transfer together, and that "
				       "of a sync, are at most %u in a million",
				       MILLION);
	return TIDE_OK;
}

int tide_fault_open(const struct tide_fault_config *config, struct tide_storage *out,
		    struct tide_reason *why)
{
	struct fault_storage *fault;
	void *memory;
	int code;

	if (!config || !out)
		return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
				       "no configuration or no place for the storage");
	*out = (struct tide_storage){0};
	code = check_config(config, why);
	if (code != TIDE_OK)
		return code;
	if (tide_prim_allocate(_Alignof(struct fault_storage), sizeof(*fault), &memory) != 0)
		return tide_reason_set(why, TIDE_NOT_ENOUGH_MEMORY, ENOMEM,
				       "no memory for a storage");
	fault = memory;
	fault->config = *config;
	*out = (struct tide_storage){&fault_ops, fault};
	return TIDE_OK;
}

void tide_fault_close(struct tide_storage *storage)
{
	if (!storage || !storage->self)
		return;
	free(storage->self);
	*storage = (struct tide_storage){0};
}

void tide_fault_next(struct tide_storage *storage, enum tide_fault fault, uint32_t n)
{
	struct fault_storage *self = storage->self;

	atomic_store_explicit(&self->forced[fault], n, memory_order_relaxed);
}

uint64_t tide_fault_count(const struct tide_storage *storage, enum tide_fault fault)
{
	struct fault_storage *self = storage->self;

	return atomic_load_explicit(&self->happened[fault], memory_order_relaxed);
}
