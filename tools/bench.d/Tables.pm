# SPDX-License-Identifier: PostgreSQL
#
# Page tables of a server whose connections have all touched a full pool: the plain server with 4
# kB pages, the same with its own huge_pages = on, and ours. The sum is over all processes of the
# server; page tables that processes share count in each of them. The machine's own figure counts
# them once.

package Tables;

use strict;
use warnings;

use Ground;
use PageTables;
use Report;

my %start = (
	plain_4kb  => sub { $_[0]->start_plain(shared_buffers => "$_[0]{ceiling_mb}MB", @_[1 .. $#_]) },
	plain_huge => sub {
		$_[0]->start_plain(shared_buffers => "$_[0]{ceiling_mb}MB", huge_pages => 'on',
			@_[1 .. $#_]);
	},
	ours_huge => sub { $_[0]->start_ours(@_[1 .. $#_]) },
);

sub run
{
	my ($ground, $report) = @_;
	my $blocks = int($ground->{ceiling_mb} * Ground::PAGES_PER_MB * 0.98);
	my @connections = $ground->{quick} ? (5, 10) : (25, 50, 100, 200);
	my %sum;
	for my $server (sort keys %start)
	{
		$start{$server}->($ground, max_connections => 250);
		$ground->fill($ground->{cluster}{session}, $blocks);
		for my $found (PageTables::measure($ground->{cluster}, 'filler', $blocks, @connections))
		{
			my $n = $found->{connections};
			$sum{$server}{$n} = $found->{sum_kb};
			$report->figures("${server}_${n}_connections_kb" => $found->{sum_kb},
				"${server}_${n}_connections_machine_kb" => $found->{machine_kb});
		}
	}
	$report->figures(touched_mib => $blocks / Ground::PAGES_PER_MB);
	for my $n (@connections)
	{
		my ($plain, $own, $ours) = map { $sum{$_}{$n} } qw(plain_4kb plain_huge ours_huge);
		$report->requirement(
			name     => "ratio_${n}_connections",
			figure   => "page tables, $n connections, full pool",
			measured => sprintf('%.1f MB', $ours / 1024),
			against  => sprintf('%.1f MB 4 kB', $plain / 1024),
			value    => $ours / $plain,
			at_most  => sprintf('%.4f', 1 / 30));
		$report->figures("ratio_own_${n}_connections" => $ours / $own);
		$report->remark("  the server's own huge_pages = on", '', sprintf('%.1f MB', $own / 1024),
			$ours / $own);
	}
}

1;
