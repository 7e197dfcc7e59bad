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

# Every fourth of the pages in the pool is updated in place.
sub make_dirty
{
	my ($ground, $blocks) = @_;
	my $stride = STRIDE;
	$ground->{cluster}->query("SET $_ = off") for qw(enable_seqscan enable_bitmapscan);
	$ground->{cluster}->query(
		"UPDATE filler SET v = v + 1 WHERE id <= $blocks AND id % $stride = 0");
	my ($pages, $dirty) = $ground->pages_in_pool;
	return $dirty / $pages;
}

# Shrinks and grows again; what was written before is on disk first.
sub shrink
{
	my ($ground) = @_;
	my $cluster = $ground->{cluster};
	$cluster->run('sync', '-f', $cluster->{folder});
	my $outcome = $ground->resize($ground->{small_mb});
	$ground->resize($ground->{ceiling_mb});
	return $outcome;
}

# In turn: a shrink with dirty pages, as many bare writes, and a shrink of the same pages, clean.
sub measure
{
	my ($ground, $runs) = @_;
	my $cluster = $ground->{cluster};
	my $blocks = int($ground->{ceiling_mb} * Ground::PAGES_PER_MB * 0.97);
	my $folder = copy_table($ground);
	my %found;
	for (1 .. $runs)
	{
		$ground->fill($cluster->{session}, $blocks);
		push @{ $found{dirty_part} }, make_dirty($ground, $blocks);
		my $dirty = shrink($ground);
		push @{ $found{shrink_ms} }, $dirty->{wall_ms};
		push @{ $found{$_} }, $dirty->{$_}
		  for qw(elapsed_ms drain_ms release_ms evicted_pages written_pages);

		$cluster->run('sync', '-f', $cluster->{folder});
		push @{ $found{raw_write_ms} },
		  $ground->raw_write($folder, $dirty->{written_pages}, STRIDE);

		$ground->fill($cluster->{session}, $blocks);
		push @{ $found{clean_shrink_ms} }, shrink($ground)->{wall_ms};
	}
	$cluster->run('rm', '-r', $folder);
	return %found;
}

sub run
{
	my ($ground, $report) = @_;
	$ground->start_ours;
	my %found = measure($ground, $ground->times(4, 2));
	my %median = map { $_ => Report::median(@{ $found{$_} }) } keys %found;
	my $bytes = sprintf '%g -> %g GiB', $ground->{ceiling_mb} / 1024, $ground->{small_mb} / 1024;
	my $both = $median{raw_write_ms} + $median{clean_shrink_ms};

	$report->figures(%found,
		ratio => $median{shrink_ms} / $median{raw_write_ms},
		write_and_clean_shrink_ratio => $median{shrink_ms} / $both);
	$report->requirement(
		name     => 'ratio',
		figure   => sprintf('shrink %s, %.0f %% dirty, idle', $bytes, 100 * $median{dirty_part}),
		measured => sprintf('%.0f ms', $median{shrink_ms}),
		against  => sprintf('%.0f ms pwrite', $median{raw_write_ms}),
		value    => $median{shrink_ms} / $median{raw_write_ms},
		at_most  => 1.2);
	$report->remark('  against pwrite and a clean shrink',
		sprintf('%.0f ms', $median{shrink_ms}),
		sprintf('%.0f ms both', $both), $median{shrink_ms} / $both);
}

1;
