# SPDX-License-Identifier: PostgreSQL
#
# What it costs a victim search to step over parked buffers: random reads of a table much larger
# than the pool and wholly in the page cache, in one backend, so that almost every read is a
# miss. The pool always has the same size; the ceiling is that, or 2, 4 and 16 times as much. 4
# kB pages everywhere, so that nothing but the search differs from the plain server of that size.

package Victim;

use strict;
use warnings;

use PgbenchLog;
use Ground;
use Report;

my @multiples = (0, 1, 2, 4, 16);    # 0: the plain server

# Random rows of the filler, the same ones each time.
sub prepare
{
	my ($ground, $misses) = @_;
	my $cluster = $ground->{cluster};
	$cluster->query('SELECT setseed(0.25)');
	$cluster->query("CREATE TEMP TABLE picks AS SELECT format('(%s,1)', "
		  . "floor(random() * $ground->{blocks}))::tid AS t FROM generate_series(1, $misses)");
	$cluster->query("SET $_ = off") for qw(enable_hashjoin enable_mergejoin enable_material);
}

# Processor time of the session's backend so far. Nothing here waits for a disk, and what others
# do on the machine counts less than in time that passes.
sub backend_ns
{
	my ($pid) = @_;
	open my $fh, '<', "/proc/$pid/schedstat" or die "/proc/$pid/schedstat: $!\n";
	my ($ns) = split ' ', <$fh>;
	return $ns;
}

# Nanoseconds for each page that had to be read.
sub ns_per_miss
{
	my ($ground) = @_;
	my $pid = $ground->{cluster}->query('SELECT pg_backend_pid()');
	my $before = backend_ns($pid);
	my $plan = join "\n", map { join '|', @$_ } $ground->{cluster}->query(
		'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) '
		  . 'SELECT count(f.v) FROM picks JOIN filler f ON f.ctid = picks.t');
	my ($read) = $plan =~ /shared.*? read=(\d+)/;
	die "no reads in\n$plan\n" unless $read;
	return (backend_ns($pid) - $before) / $read;
}

sub run
{
	my ($ground, $report) = @_;
	my $size_mb = $ground->{ceiling_mb} / 16;
	my @order = @multiples;
	my %found;
	for (1 .. $ground->times(3, 1))
	{
		for my $multiple (@order)
		{
			$ground->start_plain(shared_buffers => "${size_mb}MB") unless $multiple;
			$ground->start_ours(ceiling_mb => $size_mb * $multiple, size_mb => $size_mb,
				tide_huge_pages => 'off')
			  if $multiple;
			prepare($ground, $ground->times(200_000, 100_000));
			ns_per_miss($ground);
			push @{ $found{$multiple} }, Report::median(map { ns_per_miss($ground) } 1 .. 3);
		}
		@order = reverse @order;
	}
	my $plain = Report::median(@{ $found{0} });
	$report->figures(pool_mib => $size_mb, plain_per_miss_ns => $found{0});
	for my $multiple (grep { $_ } @multiples)
	{
		my @ratios = map { $found{$multiple}[$_] / $found{0}[$_] } 0 .. $#{ $found{0} };
		my $ratio = Report::median(@ratios);
		my $ns = Report::median(@{ $found{$multiple} });
		my @line = ("a miss at ceiling/current $multiple", sprintf('%.0f ns', $ns),
			sprintf('%.0f ns plain', $plain));
		$report->figures("ceiling_${multiple}x_per_miss_ns" => $found{$multiple},
			"ceiling_${multiple}x_ratio" => \@ratios);
		if ($multiple == 4)
		{
			$report->requirement(
				name     => 'ceiling_4x_ratio',
				figure   => $line[0],
				measured => $line[1],
				against  => $line[2],
				value    => $ratio,
				at_most  => 1.03);
		}
		else { $report->remark(@line, $ratio) }
	}
}

1;
