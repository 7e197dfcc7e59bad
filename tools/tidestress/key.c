/* SPDX-License-Identifier: PostgreSQL */
/*
 * key.c - which page comes next.
 *
 * Zipf by rejection-inversion (Hoermann and Derflinger 1996): no table, so that every participant
 * can have a source of its own over any number of pages.
 */
#include "key.h"

#include <math.h>

#define SCAN_PAGES 512u

/* log(1 + x) / x and (exp(x) - 1) / x, also where x is nearly 0 */
static double log1p_over(double x)
{
	return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x * (0.5 - x / 3);
}

static double expm1_over(double x)
{
	return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x * (0.5 + x / 6);
}

static double density(double skew, double x)
{
	return exp(-skew * log(x));
}

static double integral(double skew, double x)
{
	double log_x = log(x);

	return expm1_over((1 - skew) * log_x) * log_x;
}

static double integral_inverse(double skew, double x)
{
	double t = fmax(x * (1 - skew), -1);

	return exp(log1p_over(t) * x);
}

void key_source_init(struct key_source *source, enum key_distribution distribution, double skew,
		     uint64_t n_pages)
{
	*source = (struct key_source){
		.distribution = distribution,
		.n_pages = n_pages,
		.skew = skew,
		.zipf_first = integral(skew, 1.5) - 1,
		.zipf_last = integral(skew, (double)n_pages + 0.5),
		.zipf_limit = 2 - integral_inverse(skew, integral(skew, 2.5) - density(skew, 2)),
	};
}

/* 1 = the most frequent */
static uint64_t zipf_rank(const struct key_source *source, struct random *random)
{
	double skew = source->skew;

	for (;;) {
		double u = source->zipf_last +
			   random_unit(random) * (source->zipf_first - source->zipf_last);
		double x = integral_inverse(skew, u);
		double rank = fmin(fmax(floor(x + 0.5), 1), (double)source->n_pages);

		if (rank - x <= source->zipf_limit ||
		    u >= integral(skew, rank + 0.5) - density(skew, rank))
			return (uint64_t)rank;
	}
}

/* Spread over all files and chunks; a large prime has no factor in common with n_pages. */
static uint64_t zipf_page(const struct key_source *source, struct random *random)
{
	return (zipf_rank(source, random) - 1) * UINT64_C(2654435761) % source->n_pages;
}

static uint64_t scan_page(struct key_source *source, struct random *random, uint64_t length)
{
	if (source->scan_left == 0) {
		source->scan_next = random_below(random, source->n_pages);
		source->scan_left = length;
	}
	source->scan_left--;

	uint64_t page = source->scan_next;

	source->scan_next = (page + 1) % source->n_pages;
	return page;
}

static uint64_t mixed_page(struct key_source *source, struct random *random)
{
	uint64_t which = random_below(random, 100);

	if (source->scan_left > 0 && which < 80)
		return scan_page(source, random, SCAN_PAGES);
	if (random_one_in(random, 2000))
		return scan_page(source, random, SCAN_PAGES);
	return which % 4 == 0 ? random_below(random, source->n_pages) : zipf_page(source, random);
}

uint64_t key_next(struct key_source *source, struct random *random)
{
	switch (source->distribution) {
	case KEY_ZIPF:
		return zipf_page(source, random);
	case KEY_SCAN:
		return scan_page(source, random, UINT64_MAX);
	case KEY_MIX:
		return mixed_page(source, random);
	case KEY_UNIFORM:
		break;
	}
	return random_below(random, source->n_pages);
}
