/* SPDX-License-Identifier: PostgreSQL */
/* quantity.h - numbers with units, as people write them. */
#ifndef TIDESTRESS_QUANTITY_H
#define TIDESTRESS_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

/* All return 1, or 0 when @text is something else; a number that does not fit is something else. */

/* A whole number from @low to @high. */
int quantity_number(const char *text, uint64_t low, uint64_t high, uint64_t *out);

/* A decimal number from @low to @high. */
int quantity_decimal(const char *text, double low, double high, double *out);

/* "64MB", "8 kB", "1GB", "4096": bytes */
int quantity_bytes(const char *text, uint64_t *bytes);

/* "50ms", "1.5s", "10min", "2": nanoseconds; without a unit it is seconds */
int quantity_time(const char *text, uint64_t *ns);

/* The opposite, for people: "12.3 MB". */
void quantity_bytes_text(uint64_t bytes, char *text, size_t text_bytes);

#endif
