# SPDX-License-Identifier: PostgreSQL
#
# A bank under load: pgbench's TPC-B on a server with checksums, resized meanwhile, and the checks
# afterwards that nothing was lost.

package Load;

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Time::HiRes qw(sleep time);

use constant MB => 1024 * 1024;

# With reads that are combined from fewer blocks the floor of so many backends is lower.
sub settings
{
	return "max_connections = 80\n"
	  . ($ENV{TIDE_SERVER} >= 17 ? "io_combine_limit = '32kB'\n" : '');
}

sub new_node
{
	my (%want) = @_;
	my $node = Tide::new_node(
		name => $want{name},
		ceiling => '96MB',
		size => '48MB',
		huge_pages => $want{huge_pages},
		init => { extra => ['--data-checksums'], %{ $want{init} // {} } },
		conf => settings() . ($want{conf} // ''));
	Tide::value($node, 'CREATE EXTENSION amcheck');
	$node->command_ok(
		[
			'pgbench', '-i', '-q', '-s',
			$want{scale} // 4, '-h', $node->host, '-p',
			$node->port, 'postgres'
		],
		'a bank is set up');
	return $node;
}

# pgbench in the background for so many seconds.
sub start
{
	my ($node, $clients, $seconds, @more) = @_;
	my $load = { out => '' };
	$load->{run} = IPC::Run::start(
		[
			'pgbench', '-n', '-c', $clients, '-j', 2,
			'-T', $seconds, @more, '-h', $node->host, '-p',
			$node->port, 'postgres'
		],
		'<',
		\undef,
		'>',
		\$load->{out},
		'2>',
		\$load->{out});
	return $load;
}

sub running
{
	my ($load) = @_;
	$load->{run}->pump_nb;
	return $load->{run}->pumpable;
}

# Its exit code and what it said.
sub finish
{
	my ($load) = @_;
	$load->{run}->finish;
	return ($load->{run}->full_result(0), $load->{out});
}

sub random_size
{
	my ($node) = @_;
	my $status = $node->{tide_bounds} //= Tide::status($node);
	return
	  int(($status->{min_bytes} + rand($status->{max_bytes} - $status->{min_bytes})) / 1024) . 'kB';
}

sub balanced
{
	my ($node, $name) = @_;
	my $sums = Tide::value($node, <<'SQL');
SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
	(SELECT sum(tbalance) FROM pgbench_tellers),
	(SELECT COALESCE(sum(delta), 0) FROM pgbench_history)
SQL
	my ($first, @others) = split /\|/, $sums;
	is_deeply(\@others, [ ($first) x 3 ], "$name: the balances are equal");
}

sub indexes_whole
{
	my ($node, $name) = @_;
	is($node->psql('postgres', <<'SQL'), 0, "$name: the indexes are whole");
SELECT bt_index_check(i.indexrelid, true)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
 WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisready AND i.indisvalid
SQL
}

sub checksums_right
{
	my ($node, $name) = @_;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ],
		"$name: the checksums are right");
}

1;
