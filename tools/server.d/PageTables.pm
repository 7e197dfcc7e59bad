# SPDX-License-Identifier: PostgreSQL
#
# What the page tables of a server cost when all its connections have touched the whole pool.
#
# A page table page describes 2 MiB, so looking at one row of every thirty-second block of a table
# that lies in the pool is enough to have touched all of it.

package PageTables;

use strict;
use warnings;

use Time::HiRes qw(sleep time);

use constant STRIDE  => 32;
use constant PATIENCE_SECONDS => 120;

sub vm_pte_kb
{
	my ($pid) = @_;
	open my $fh, '<', "/proc/$pid/status" or return 0;
	my ($kb) = join('', <$fh>) =~ /^VmPTE:\s+(\d+) kB/m;
	return $kb // 0;
}

# All processes of the server, each with what its own tables cost.
sub sum_kb
{
	my ($cluster) = @_;
	my $kb = 0;
	$kb += vm_pte_kb($_) for $cluster->pids;
	return $kb;
}

# The whole machine. Tables that processes share are counted once here, and so is everybody else.
sub machine_kb
{
	open my $fh, '<', '/proc/meminfo' or return 0;
	my ($kb) = join('', <$fh>) =~ /^PageTables:\s+(\d+) kB/m;
	return $kb // 0;
}

sub write_script
{
	my ($cluster, $table, $blocks) = @_;
	my $script = "$cluster->{folder}/touch.sql";
	my $stride = STRIDE;
	open my $fh, '>', $script or die "$script: $!\n";
	print $fh <<"SQL";
SELECT count(*) FROM $table WHERE ctid = ANY (ARRAY(
	SELECT format('(%s,1)', b)::tid FROM generate_series(0, $blocks - 1, $stride) b));
SELECT pg_advisory_lock_shared(1);
\\sleep 1800 s
SQL
	close $fh;
	return $script;
}

sub wait_for
{
	my ($cluster, $connections) = @_;
	my $until = time + PATIENCE_SECONDS;
	while (time < $until)
	{
		my $touched = $cluster->query(
			q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted});
		return if $touched >= $connections;
		sleep 0.1;
	}
	die "fewer than $connections connections have touched the pool in "
	  . "${\ PATIENCE_SECONDS} s\n";
}

# For each number of connections, in rising order: { connections, sum_kb, machine_kb }; the first
# entry is for none. The table's first $blocks blocks are in the pool.
sub measure
{
	my ($cluster, $table, $blocks, @connections) = @_;
	my $script = write_script($cluster, $table, $blocks);
	my $machine = machine_kb();
	my @found = ({ connections => 0, sum_kb => sum_kb($cluster), machine_kb => 0 });
	my @children;
	my $open = 0;

	my $done = eval {
		for my $n (@connections)
		{
			push @children,
			  $cluster->spawn('touch.log',
				$cluster->pgbench('-n', '-c', $n - $open, '-t', 1, '-f', $script));
			$open = $n;
			wait_for($cluster, $n);
			push @found, {
				connections => $n,
				sum_kb      => sum_kb($cluster),
				machine_kb  => machine_kb() - $machine,
			};
		}
		1;
	};
	my $wrong = $@;
	$cluster->reap($_) for @children;
	die $wrong unless $done;
	return @found;
}

1;
