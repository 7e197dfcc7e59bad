# SPDX-License-Identifier: PostgreSQL
#
# Shrinking an idle server whose pool is full of clean pages, and giving the memory back, against
# one bare punch of as many bytes.

package Shrink;

use strict;
use warnings;

use Ground;
use Report;

sub run
{
	my ($ground, $report) = @_;
	my $cluster = $ground->{cluster};
	my $mb = $ground->{ceiling_mb} - $ground->{small_mb};
	my %found;

	$ground->start_ours;
	for (1 .. $ground->times(5, 2))
	{
		$ground->fill($cluster->{session});
		my ($pages, $dirty) = $ground->pages_in_pool;
		push @{ $found{full_part} }, $pages / ($ground->{ceiling_mb} * Ground::PAGES_PER_MB);
		my $outcome = $ground->resize($ground->{small_mb});
		push @{ $found{shrink_ms} }, $outcome->{wall_ms};
		push @{ $found{$_} }, $outcome->{$_}
		  for qw(elapsed_ms drain_ms release_ms evicted_pages written_pages);
		my (undef, $punch_ms) = $ground->raw_memory('populate', $mb, 1);
		push @{ $found{raw_punch_ms} }, $punch_ms;
		$ground->resize($ground->{ceiling_mb});
	}
	my %median = map { $_ => Report::median(@{ $found{$_} }) } keys %found;
	my $bytes = sprintf '%g -> %g GiB', $ground->{ceiling_mb} / 1024, $ground->{small_mb} / 1024;
	my $limit = 150 * $mb / 3072;

	$report->figures(%found, shrink_mib => $mb,
		drain_per_evicted_page_ns => 1e6 * $median{drain_ms} / ($median{evicted_pages} || 1),
		punch_ratio => $median{release_ms} / $median{raw_punch_ms});
	$report->requirement(
		name     => 'shrink_ms',
		figure   => "shrink $bytes, clean and full, idle",
		measured => sprintf('%.0f ms', $median{shrink_ms}),
		value    => $median{shrink_ms},
		unit     => 'ms',
		at_most  => $limit);
	$report->requirement(
		name     => 'punch_ratio',
		figure   => '  giving it back',
		measured => sprintf('%.1f ms', $median{release_ms}),
		against  => sprintf('%.1f ms raw', $median{raw_punch_ms}),
		value    => $median{release_ms} / $median{raw_punch_ms},
		at_most  => 1.5);
}

1;
