# SPDX-License-Identifier: PostgreSQL
#
# How long a new connection takes while the pool grows from almost nothing to the ceiling. A
# maximum depends on how many were looked at, so that before the grow is of as many connections
# as there were during it.

package Connect;

use strict;
use warnings;

use Time::HiRes qw(sleep time);

use PgbenchLog;
use Ground;
use Report;

use constant BEFORE_S => 2;
use constant COLD_AFTER_SECONDS => 10;

# Connections from a file of lines "began_us latency_us": [began in s, ended in s, latency in ms].
sub read_connections
{
	my ($file) = @_;
	open my $fh, '<', $file or die "$file: $!\n";
	return map { my ($began, $us) = split; [ $began / 1e6, ($began + $us) / 1e6, $us / 1e3 ] }
	  grep { /^\d+ \d+\n/ } <$fh>;
}

# Grows as often as asked, connections being opened all the time; when each grow ran.
sub grows
{
	my ($ground, $floor_mb, $runs, $rest) = @_;
	my @windows;
	for (1 .. $runs)
	{
		$ground->resize($floor_mb);
		sleep $rest;
		my $from = time;
		my $outcome = $ground->resize($ground->{ceiling_mb});
		push @windows, { from => $from, until => time, %$outcome };
	}
	return @windows;
}

sub measure
{
	my ($ground, $report, $state, $floor_mb, $runs, $rest) = @_;
	my $cluster = $ground->{cluster};
	my $opener = $cluster->spawn('connections.log', $ground->connect_latency_command);
	my @windows = grows($ground, $floor_mb, $runs, $rest);
	$cluster->reap($opener);
	my @connections = read_connections("$cluster->{folder}/connections.log");
	my (@during, @before);

	for my $window (@windows)
	{
		my @in = grep { $_->[0] < $window->{until} && $_->[1] > $window->{from} } @connections;
		my @earlier = grep { $_->[1] <= $window->{from} && $_->[0] > $window->{from} - $rest + 0.5 }
		  @connections;
		@earlier = @earlier[ -@in .. -1 ] if @earlier > @in;
		push @during, map { $_->[2] } @in;
		push @before, map { $_->[2] } @earlier;
	}
	my ($max_before, $max_during) = map { PgbenchLog::percentile(1, @$_) } \@before, \@during;
	$report->figures(
		"${state}_connections_before_count" => scalar @before,
		"${state}_connections_during_count" => scalar @during,
		"${state}_max_before_ms"            => $max_before,
		"${state}_max_during_ms"            => $max_during,
		"${state}_p99_before_ms"            => PgbenchLog::percentile(0.99, @before),
		"${state}_p99_during_ms"            => PgbenchLog::percentile(0.99, @during),
		"${state}_median_before_ms"         => Report::median(@before),
		"${state}_median_during_ms"         => Report::median(@during),
		"${state}_grow_ms"                  => [ map { $_->{wall_ms} } @windows ],
		"${state}_ratio"                    => $max_during / $max_before);
	$report->requirement(
		name     => "${state}_ratio",
		figure   => sprintf('slowest connection during a grow of %.3g GiB, %s',
			($ground->{ceiling_mb} - $floor_mb) / 1024, $state),
		measured => sprintf('%.1f ms', $max_during),
		against  => sprintf('%.1f ms before', $max_before),
		value    => $max_during / $max_before,
		at_most  => 3);
}

sub run
{
	my ($ground, $report) = @_;
	my $floor_mb = $ground->{ceiling_mb} / 64;
	$ground->start_ours;
	my $least = $ground->{cluster}->status('min_bytes')->{min_bytes} / (1 << 20);
	$floor_mb = $least if $floor_mb < $least;
	$report->figures(from_mib => $floor_mb, to_mib => $ground->{ceiling_mb});
	measure($ground, $report, 'warm', $floor_mb, $ground->times(8, 2), BEFORE_S);
	measure($ground, $report, 'cold', $floor_mb, $ground->times(2, 1), COLD_AFTER_SECONDS);
}

1;
