# SPDX-License-Identifier: PostgreSQL
#
# Growing an idle server on huge pages, against the fastest bare way to commit as many bytes with
# as many threads: with pages that wait in the huge-page pool (warm), and with overcommitted
# pages that went back to the machine a while ago, so that a host may have taken them (cold).

package Grow;

use strict;
use warnings;

use Time::HiRes qw(sleep);

use Ground;
use Report;

use constant COLD_AFTER_SECONDS => 10;

# Threads that the worker has while it commits, counted during a grow that is not measured.
sub count_threads
{
	my ($ground) = @_;
	my $cluster = $ground->{cluster};
	my $pid = $cluster->status('worker_pid')->{worker_pid};
	my $session = $cluster->session;
	my $most = 1;
	$session->start(Cluster::resize_sql("$ground->{ceiling_mb}MB"));
	until ($session->ended(0.0003))
	{
		my $threads = () = glob "/proc/$pid/task/*";
		$most = $threads if $threads > $most;
	}
	$session->quit;
	$ground->resize($ground->{small_mb});
	return $most;
}

# Both in turn, as often as asked; $rest is how long pages are left alone before each.
sub measure
{
	my ($ground, $runs, $rest, @ways) = @_;
	my %found;
	for (1 .. $runs)
	{
		for my $way (@ways)
		{
			my ($name, $how, $threads) = @$way;
			sleep $rest;
			my ($commit_ms) = $ground->raw_memory($how, $ground->{grow_mb}, $threads);
			push @{ $found{$name} }, $commit_ms;
		}
		sleep $rest;
		my $outcome = $ground->resize($ground->{ceiling_mb});
		push @{ $found{grow} }, $outcome->{wall_ms};
		push @{ $found{$_} }, $outcome->{"${_}_ms"} for qw(elapsed commit publish first_publish);
		$ground->resize($ground->{small_mb});
	}
	return %found;
}

sub report_state
{
	my ($report, $ground, $state, %found) = @_;
	my @raw = grep { /^raw/ } keys %found;
	my ($fastest) = sort { Report::median(@{ $found{$a} }) <=> Report::median(@{ $found{$b} }) } 
	  grep { !/other/ } @raw;
	my ($ours, $raw) = map { Report::median(@{ $found{$_} }) } 'grow', $fastest;
	my $first = Report::median(@{ $found{first_publish} });
	my $bytes = sprintf '%g -> %g GiB', $ground->{small_mb} / 1024, $ground->{ceiling_mb} / 1024;

	$report->figures(map { ("${state}_${_}_ms" => $found{$_}) } keys %found);
	$report->figures("${state}_fastest_raw" => $fastest, "${state}_ratio" => $ours / $raw);
	$report->requirement(
		name     => "${state}_ratio",
		figure   => "grow $bytes, idle, $state pages",
		measured => sprintf('%.0f ms', $ours),
		against  => sprintf('%.0f ms raw', $raw),
		value    => $ours / $raw,
		at_most  => 1.10);
	$report->requirement(
		name     => "${state}_first_publish_ms",
		figure   => "  first new buffers usable, $state",
		measured => sprintf('%.1f ms', $first),
		value    => $first,
		unit     => 'ms',
		at_most  => 20);
}

sub run
{
	my ($ground, $report) = @_;
	$ground->{grow_mb} = $ground->{ceiling_mb} - $ground->{small_mb};

	$ground->lend_pool;
	$ground->start_ours(size_mb => $ground->{small_mb});
	my $threads = count_threads($ground);
	my $other = $threads == 1 ? 2 : 1;
	my @same = ([ 'raw_populate', 'populate', $threads ]);
	my @ways = (@same, [ 'raw_fallocate', 'fallocate', $threads ],
		[ 'raw_populate_other', 'populate', $other ]);
	$report->figures(threads_count => $threads, other_threads_count => $other,
		grow_mib => $ground->{grow_mb}, cold_after_s => COLD_AFTER_SECONDS);
	report_state($report, $ground, 'warm', measure($ground, $ground->times(7, 3), 0, @ways));
	$ground->{cluster}->stop;
	$ground->return_pool;

	$ground->start_ours(size_mb => $ground->{small_mb});
	$ground->resize($ground->{ceiling_mb});
	$ground->resize($ground->{small_mb});
	report_state($report, $ground, 'cold',
		measure($ground, $ground->times(3, 1), COLD_AFTER_SECONDS, @same));
}

1;
