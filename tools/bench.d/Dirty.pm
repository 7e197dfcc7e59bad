# SPDX-License-Identifier: PostgreSQL
#
# Shrinking a full pool in which every fourth page is dirty, against plain pwrite of as many
# pages in block order, every fourth block of a copy of the same table on the same file system.

package Dirty;

use strict;
use warnings;

use Ground;
use Report;

use constant STRIDE => 4;

# A copy of the table's files, named by their number.
sub copy_table
{
	my ($ground) = @_;
	my $cluster = $ground->{cluster};
	my $folder = "$cluster->{folder}/copy";
	my $path = $cluster->query("SELECT pg_relation_filepath('filler')");
	mkdir $folder or die "$folder: $!\n";
	for (my $n = 0; ; $n++)
	{
		my $from = "$cluster->{data}/$path" . ($n ? ".$n" : '');
		last unless -e $from;
		$cluster->run('cp', $from, "$folder/$n");
	}
	return $folder;
}

# Nine tenths of the pool is filled; every fourth of those pages is updated in place.
sub make_dirty
{
	my ($ground) = @_;
	my $cluster = $ground->{cluster};
	my $blocks = int($ground->{ceiling_mb} * Ground::PAGES_PER_MB * 0.9);
	$ground->fill($cluster->{session}, $blocks);
	$cluster->query('SET enable_seqscan = off');
	$cluster->query('SET enable_bitmapscan = off');
	my $stride = STRIDE;
	$cluster->query("UPDATE filler SET v = v + 1 WHERE id <= $blocks AND id % $stride = 0");
}

sub run
{
	my ($ground, $report) = @_;
	my $cluster = $ground->{cluster};
	my %found;

	$ground->start_ours;
	my $folder = copy_table($ground);
	for (1 .. $ground->times(4, 2))
	{
		make_dirty($ground);
		my ($pages, $dirty) = $ground->pages_in_pool;
		push @{ $found{dirty_part} }, $dirty / $pages;
		$cluster->run('sync', '-f', $cluster->{folder});
		my $outcome = $ground->resize($ground->{small_mb});
		push @{ $found{shrink_ms} }, $outcome->{wall_ms};
		push @{ $found{$_} }, $outcome->{$_}
		  for qw(elapsed_ms drain_ms release_ms evicted_pages written_pages);
		$cluster->run('sync', '-f', $cluster->{folder});
		push @{ $found{raw_write_ms} },
		  $ground->raw_write($folder, $outcome->{written_pages}, STRIDE);
		$ground->resize($ground->{ceiling_mb});
	}
	$cluster->run('rm', '-r', $folder);
	my %median = map { $_ => Report::median(@{ $found{$_} }) } keys %found;
	my $bytes = sprintf '%g -> %g GiB', $ground->{ceiling_mb} / 1024, $ground->{small_mb} / 1024;

	$report->figures(%found, ratio => $median{shrink_ms} / $median{raw_write_ms});
	$report->requirement(
		name     => 'ratio',
		figure   => sprintf('shrink %s, %.0f %% dirty, idle', $bytes, 100 * $median{dirty_part}),
		measured => sprintf('%.0f ms', $median{shrink_ms}),
		against  => sprintf('%.0f ms pwrite', $median{raw_write_ms}),
		value    => $median{shrink_ms} / $median{raw_write_ms},
		at_most  => 1.2);
	$report->remark(
		sprintf('  written: %.0f pages, evicted: %.0f', @median{qw(written_pages evicted_pages)}),
		sprintf('%.0f ms drain', $median{drain_ms}));
}

1;
