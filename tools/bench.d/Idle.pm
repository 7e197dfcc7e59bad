# SPDX-License-Identifier: PostgreSQL
#
# What the extension costs when it is loaded and never resized: pgbench -S with 50 clients
# against the plain server with as many shared_buffers and no huge pages. The servers take turns,
# the order being reversed each time; each round gives one ratio. Connections are new in each
# run, so faults on pages that a connection sees for the first time count for every server alike.

package Idle;

use strict;
use warnings;

use Report;

use constant CLIENTS => 50;

my %start = (
	plain_4kb => sub { $_[0]->start_plain(shared_buffers => "$_[0]{ceiling_mb}MB") },
	ours_4kb  => sub { $_[0]->start_ours(tide_huge_pages => 'off') },
	ours_huge => sub { $_[0]->start_ours },
);

# Transactions a second.
sub pgbench_tps
{
	my ($ground) = @_;
	my $cluster = $ground->{cluster};
	my @command = $cluster->pgbench('-n', '-S', '-c', CLIENTS, '-j', 2, '-T', $ground->times(7, 2));
	open my $fh, '-|', @command or die "pgbench: $!\n";
	my ($tps) = join('', <$fh>) =~ /^tps = ([\d.]+)/m;
	close $fh or die "pgbench failed\n";
	return $tps;
}

sub run
{
	my ($ground, $report) = @_;
	my @servers = qw(plain_4kb ours_4kb ours_huge);
	my %found;
	for (1 .. $ground->times(4, 1))
	{
		for my $server (@servers)
		{
			$start{$server}->($ground);
			$ground->{cluster}->query("SELECT pg_prewarm('$_')")
			  for qw(pgbench_accounts pgbench_accounts_pkey);
			push @{ $found{$server} }, pgbench_tps($ground);
		}
		@servers = reverse @servers;
	}
	$report->figures(map { ("${_}_tps" => $found{$_}) } keys %found);
	for my $required ([ 'ours_huge', 'huge pages', 1.10 ], [ 'ours_4kb', '4 kB pages', 0.99 ])
	{
		my ($server, $name, $limit) = @$required;
		my @rounds = 0 .. $#{ $found{plain_4kb} };
		my @ratios = map { $found{$server}[$_] / $found{plain_4kb}[$_] } @rounds;
		my ($ours, $plain) = map { Report::median(@{ $found{$_} }) } $server, 'plain_4kb';
		$report->figures("${server}_ratio" => \@ratios);
		$report->requirement(
			name     => "${server}_ratio",
			figure   => "never resized, pgbench -S -c 50, $name",
			measured => sprintf('%.0f tps', $ours),
			against  => sprintf('%.0f plain', $plain),
			value    => Report::median(@ratios),
			at_least => $limit);
		$report->remark('  rounds from and to', map { sprintf '%.3f', $_ }
			  (sort { $a <=> $b } @ratios)[ 0, -1 ]);
	}
}

1;
