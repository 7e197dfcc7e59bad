/* SPDX-License-Identifier: PostgreSQL */
/* pool/storage.c - what all storages have in common. */
#include "pool/storage.h"

int storage_check_page_bytes(uint32_t page_bytes, struct tide_reason *why)
{
	if (page_bytes >= PAGE_BYTES_MIN && page_bytes <= PAGE_BYTES_MAX &&
	    (page_bytes & (page_bytes - 1)) == 0)
		return TIDE_OK;
	return tide_reason_set(why, TIDE_BAD_REQUEST, 0,
			       "pages of %u bytes are not supported, only powers of two from %u "
			       "to %u",
			       page_bytes, PAGE_BYTES_MIN, PAGE_BYTES_MAX);
}
