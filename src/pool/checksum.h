/* SPDX-License-Identifier: PostgreSQL */
/*
 * pool/checksum.h - the checksum that a page carries in storage.
 *
 * XXH3 (64 bit) over the page without the 8 bytes that hold it: over what lies before them, seeded
 * with the page's id, and with the result as seed over what lies behind them. So a page that was
 * written to a wrong place does not pass. It is never 0: a page in storage that is all zeros was
 * never written, and no written page looks like one.
 */
#ifndef POOL_CHECKSUM_H
#define POOL_CHECKSUM_H

#include <stdint.h>

#include <tidepool/pool.h>

#define CHECKSUM_NONE UINT32_MAX /* as an offset: pages carry none */

/** checksum_of() - what the checksum of @page is to be; what lies at @offset is left out */
uint64_t checksum_of(const void *page, uint32_t page_bytes, uint32_t offset,
		     const struct tide_page_id *id);

/** checksum_put() - store it at @offset, least significant byte first */
void checksum_put(void *page, uint32_t offset, uint64_t checksum);

/** checksum_get() - read what is stored at @offset */
uint64_t checksum_get(const void *page, uint32_t offset);

/** checksum_is_hole() - is the whole page zero? */
int checksum_is_hole(const void *page, uint32_t page_bytes);

#endif /* POOL_CHECKSUM_H */
