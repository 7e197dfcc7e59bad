/* SPDX-License-Identifier: PostgreSQL */
/* pool/storage.h - what all storages have in common. */
#ifndef POOL_STORAGE_H
#define POOL_STORAGE_H

#include <stdint.h>

#include <tidepool/reason.h>

#define PAGE_BYTES_MIN 4096u
#define PAGE_BYTES_MAX 65536u

/** storage_check_page_bytes() - 0; TIDE_BAD_REQUEST: no possible size of a page */
int storage_check_page_bytes(uint32_t page_bytes, struct tide_reason *why);

#endif /* POOL_STORAGE_H */
