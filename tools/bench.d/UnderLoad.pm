# SPDX-License-Identifier: PostgreSQL
#
# Shrinking and growing under pgbench with 8 clients (TPC-B): how long a shrink of a full pool
# takes, the emptiest 100 ms bucket of commits, and the 99th percentile of latency while the pool
# grows.

package UnderLoad;

use strict;
use warnings;

use Time::HiRes qw(sleep time);

use PgbenchLog;
use Ground;
use Report;

use constant BUCKET_S => 0.1;
use constant BEFORE_S => 2;
use constant AFTER_S  => 0.5;
use constant TAIL_S   => 2;    # what pgbench has not written to its log when it is ended is lost

# One resize with the seconds of the clock between which it ran.
sub timed_resize
{
	my ($ground, $mb) = @_;
	my $from = time;
	my $outcome = $ground->resize($mb);
	return { %$outcome, from => $from, until => time };
}

# Fills the pool, shrinks and grows it, as often as asked.
sub cycles
{
	my ($ground, $runs) = @_;
	my $session = $ground->{cluster}->session;
	my (@shrinks, @grows);
	for (1 .. $runs)
	{
		$ground->fill($session);
		sleep BEFORE_S;
		push @shrinks, timed_resize($ground, $ground->{small_mb});
		sleep AFTER_S + BEFORE_S;
		push @grows, timed_resize($ground, $ground->{ceiling_mb});
		sleep AFTER_S;
	}
	sleep TAIL_S;
	$session->quit;
	return (\@shrinks, \@grows);
}

sub between
{
	my ($transactions, $from, $until) = @_;
	return grep { $_->[0] >= $from && $_->[0] < $until } @$transactions;
}

# Commits in each full bucket from $from on, until one ends after $until.
sub buckets
{
	my ($transactions, $from, $until) = @_;
	my $n = int(($until - $from) / BUCKET_S + 0.999);
	my @commits = (0) x $n;
	$commits[ int(($_->[0] - $from) / BUCKET_S) ]++
	  for between($transactions, $from, $from + $n * BUCKET_S);
	return @commits;
}

sub smallest
{
	my (@numbers) = sort { $a <=> $b } @_;
	return $numbers[0];
}

sub latencies_p99
{
	my ($transactions, @windows) = @_;
	my @latencies = map { $_->[1] } map { between($transactions, @$_) } @windows;
	return (PgbenchLog::percentile(0.99, @latencies), scalar @latencies);
}

# Runs pgbench beside the cycles. Returns shrinks, grows, transactions and the number of errors.
sub load
{
	my ($ground) = @_;
	my $cluster = $ground->{cluster};
	my $prefix = "$cluster->{folder}/transactions";
	my @options = ('-n', '-c', 8, '-j', 2, '-T', 3600, '-l', "--log-prefix=$prefix");

	$cluster->new_errors;
	my $pgbench = $cluster->spawn('pgbench.log', $cluster->pgbench(@options));
	my ($shrinks, $grows) = cycles($ground, $ground->times(5, 2));
	my $errors = $cluster->new_errors;
	die "pgbench ended: a transaction failed\n" unless kill 0, $pgbench;
	$cluster->reap($pgbench);
	my @transactions = PgbenchLog->new($prefix)->read_new;
	unlink glob "$prefix.*";
	return ($shrinks, $grows, \@transactions, $errors);
}

sub report_shrinks
{
	my ($ground, $report, $shrinks, $errors) = @_;
	my @shrink_ms = map { $_->{wall_ms} } @$shrinks;
	my $shrink_ms = Report::median(@shrink_ms);
	my $bytes = sprintf '%g -> %g GiB', $ground->{ceiling_mb} / 1024, $ground->{small_mb} / 1024;

	$report->figures(
		shrink_ms                 => \@shrink_ms,
		shrink_evicted_pages      => [ map { $_->{evicted_pages} } @$shrinks ],
		shrink_written_pages      => [ map { $_->{written_pages} } @$shrinks ],
		failed_transactions_count => $errors);
	$report->requirement(
		name     => 'shrink_ms',
		figure   => "shrink $bytes, full, under pgbench -c 8",
		measured => sprintf('%.0f ms', $shrink_ms),
		value    => $shrink_ms,
		unit     => 'ms',
		at_most  => 500);
	$report->requirement(
		name     => 'failed_transactions_count',
		figure   => '  failed transactions',
		measured => $errors,
		value    => $errors,
		unit     => 'transactions',
		at_most  => 0);
}

sub report_buckets
{
	my ($report, $transactions, @resizes) = @_;
	my (@before, @during);
	for my $resize (@resizes)
	{
		my ($from, $until) = @$resize{qw(from until)};
		push @before, buckets($transactions, $from - BEFORE_S, $from);
		push @during, buckets($transactions, $from, $until + AFTER_S);
	}
	$report->figures(
		emptiest_bucket_during_commits => smallest(@during),
		emptiest_bucket_before_commits => smallest(@before),
		median_bucket_during_commits   => Report::median(@during),
		median_bucket_before_commits   => Report::median(@before),
		empty_buckets_during_count     => scalar(grep { $_ == 0 } @during),
		empty_buckets_before_count     => scalar(grep { $_ == 0 } @before));
	$report->requirement(
		name     => 'emptiest_bucket_commits',
		figure   => '  emptiest 100 ms during resizes',
		measured => smallest(@during) . ' commits',
		against  => smallest(@before) . ' before',
		value    => smallest(@during),
		unit     => 'commit',
		at_least => 1);
}

sub report_grows
{
	my ($report, $transactions, @grows) = @_;
	my ($before, $n_before) =
	  latencies_p99($transactions, map { [ $_->{from} - BEFORE_S, $_->{from} ] } @grows);
	my ($during, $n_during) =
	  latencies_p99($transactions, map { [ $_->{from}, $_->{until} ] } @grows);

	die "no transaction ended during a grow\n" unless $n_during;
	$report->figures(
		grow_ms                       => [ map { $_->{wall_ms} } @grows ],
		p99_before_grow_ms            => $before,
		p99_during_grow_ms            => $during,
		p99_before_transactions_count => $n_before,
		p99_during_transactions_count => $n_during,
		p99_ratio                     => $during / $before);
	$report->requirement(
		name     => 'p99_ratio',
		figure   => '  p99 of latency during a grow',
		measured => sprintf('%.2f ms', $during),
		against  => sprintf('%.2f ms before', $before),
		value    => $during / $before,
		at_most  => 1.3);
}

sub run
{
	my ($ground, $report) = @_;
	$ground->start_ours;
	my ($shrinks, $grows, $transactions, $errors) = load($ground);
	report_shrinks($ground, $report, $shrinks, $errors);
	report_buckets($report, $transactions, @$shrinks, @$grows);
	report_grows($report, $transactions, @$grows);
}

1;
