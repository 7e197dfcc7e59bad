/* SPDX-License-Identifier: PostgreSQL */
/* layout.c - what lies where in the memory beside the pages. */
#include "pool/layout.h"

#include <tidepool/grace.h>
#include <tidepool/lookup.h>

#include "pool/descriptor.h"
#include "pool/ghost.h"
#include "pool/shared.h"

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

uint64_t layout_array_bytes(enum layout_part part, uint32_t n_buffers)
{
	struct tide_lookup_layout lookup;

	tide_lookup_layout(n_buffers, &lookup);
	switch (part) {
	case LAYOUT_BUCKETS:
		return lookup.bucket_bytes;
	case LAYOUT_OVERFLOW:
		return lookup.overflow_bytes;
	case LAYOUT_GHOSTS:
		return ghost_bytes(n_buffers);
	case LAYOUT_DESCRIPTORS:
	case LAYOUT_PARTS:
		break;
	}
	return (uint64_t)n_buffers * sizeof(struct descriptor);
}

/* Chunks double until there are few enough of them for the tables that are always committed. */
static void plan_chunks(const struct tide_pool_config *config, uint64_t page_unit,
			struct layout *out)
{
	uint64_t chunk = page_unit > POOL_MIN_CHUNK_BYTES ? page_unit : POOL_MIN_CHUNK_BYTES;

	while ((config->max_bytes + chunk - 1) / chunk > POOL_MAX_CHUNKS)
		chunk *= 2;
	out->chunk_bytes = chunk;
	out->max_bytes = round_up(config->max_bytes, chunk);
	if (out->max_bytes / config->page_bytes > LAYOUT_MAX_BUFFERS)
		out->max_bytes -= chunk;
	out->page_bytes = config->page_bytes;
	out->n_chunks = (uint32_t)(out->max_bytes / chunk);
	out->chunk_buffers = (uint32_t)(chunk / config->page_bytes);
	out->n_buffers = (uint32_t)(out->max_bytes / config->page_bytes);
	out->max_sessions = config->max_sessions ? config->max_sessions : 256;
}

void layout_plan(const struct tide_pool_config *config, uint64_t page_unit, uint64_t unit,
		 struct layout *out)
{
	uint64_t at = round_up(sizeof(struct shared), 64);

	*out = (struct layout){0};
	out->unit = unit;
	plan_chunks(config, page_unit, out);
	out->grace = at;
	at += tide_grace_table_bytes(out->max_sessions);
	out->slots = at;
	at += (uint64_t)out->max_sessions * sizeof(struct slot);
	out->lookup = at;
	at += tide_lookup_head_bytes();
	out->chunks = at;
	at = round_up(at + tide_chunk_table_bytes(out->n_chunks), 64);
	out->free_counts = at;
	at += (uint64_t)out->n_chunks * sizeof(uint32_t);
	out->control_bytes = round_up(at, unit);
	at = out->control_bytes;
	for (int part = 0; part < LAYOUT_PARTS; part++) {
		out->part[part] = at;
		out->part_bytes[part] =
			round_up(layout_array_bytes((enum layout_part)part, out->n_buffers), unit);
		at += out->part_bytes[part];
	}
	out->beside_bytes = at;
}
