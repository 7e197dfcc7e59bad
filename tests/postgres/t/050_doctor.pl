#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# tidepool.doctor(): every check answers, and says so when something is wrong. tidepool.blockers: what
# is in the way and who is suspected, seen from the database itself and from another one.

use strict;
use warnings;

use Pins;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;

use constant MB => 1024 * 1024;

my @checks = qw(
  address_space backing ceiling_overhead cgroup_limits double_buffering floor huge_page_headroom
  memlock numa overcommit page_tables retired_memory server_huge_pages tidepool_size
  transparent_huge_pages worker);

# Verdict and finding of one check.
sub check
{
	my ($node, $name) = @_;
	return Tide::row($node, "SELECT * FROM tidepool.doctor() WHERE check_name = '$name'");
}

sub verdict_is
{
	my ($node, $name, $verdict, $what) = @_;
	my $row = check($node, $name);
	is($row->{verdict}, $verdict, "$name: $what") or diag explain $row;
	return $row;
}

sub verdict_becomes
{
	my ($node, $name, $verdict, $what) = @_;
	ok(Tide::until("$name is $verdict", sub { check($node, $name)->{verdict} eq $verdict }),
		"$name: $what");
}

sub set_size
{
	my ($node, $size) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET tidepool.size = '$size'");
	$node->reload;
}

# Memory of a retired chunk that comes back behind the worker's back: through the file itself.
sub touch_retired
{
	my ($node, $bytes) = @_;
	my ($pid) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my ($file) = grep { (readlink($_) // '') =~ /memfd:postgres buffer pool/ } glob "/proc/$pid/fd/*";
	my $chunk = Tide::value($node, q{SELECT min(chunk) FROM tidepool.chunks WHERE state = 'retired'});

	open my $fh, '+<', $file or die "$file: $!\n";
	sysseek $fh, $chunk * 2 * MB, 0;
	is(syswrite($fh, "\0" x $bytes), $bytes, 'memory of a retired chunk is touched');
	close $fh;
}

sub check_answers
{
	my ($node) = @_;
	is( Tide::value($node,
			"SELECT string_agg(check_name, ' ' ORDER BY check_name) FROM tidepool.doctor()"),
		"@checks", 'every check is there once');
	is( Tide::value($node,
			q{SELECT count(*) FROM tidepool.doctor() WHERE verdict NOT IN ('ok', 'warn', 'fail')
				OR found IS NULL OR found = '' OR (advice IS NULL) <> (verdict = 'ok')}),
		0, 'every verdict is a legal one, and what is not ok comes with advice');
	note Tide::value($node, 'SELECT * FROM tidepool.doctor()');
}

sub check_rights
{
	my ($node) = @_;
	$node->safe_psql('postgres',
		'CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; CREATE ROLE stranger LOGIN');
	is(Tide::value($node, 'SET ROLE watcher; SELECT count(*) FROM tidepool.doctor()'),
		scalar @checks, 'a member of pg_monitor may ask');
	is(Tide::value($node, 'SET ROLE watcher; SELECT count(*) FROM tidepool.blockers'),
		0, 'and see blockers');
	is(Tide::sqlstate($node, "SET ROLE stranger; SELECT * FROM $_"), '42501', "others may not read $_")
	  for 'tidepool.doctor()', 'tidepool.blockers', 'tidepool.blocker_rows()';
}

sub check_sizes
{
	my ($node) = @_;
	my $floor = Tide::status($node)->{min_bytes};

	is(Tide::resize($node, $floor)->{state}, 'done', 'the pool is at its floor');
	verdict_is($node, 'tidepool_size', 'warn', 'a size that a restart would forget');
	verdict_is($node, 'ceiling_overhead', 'warn', 'a ceiling far above the size');
	set_size($node, '1TB');
	verdict_becomes($node, 'tidepool_size', 'fail', 'one that the next start would refuse');
	set_size($node, $floor);
	verdict_becomes($node, 'tidepool_size', 'ok', 'one that lasts');
}

# The worker looks for such memory itself, so it is held meanwhile.
sub check_retired_memory
{
	my ($node) = @_;
	my $worker = Tide::status($node)->{worker_pid};

	verdict_is($node, 'retired_memory', 'ok', 'what was given back is with the kernel');
	kill 'STOP', $worker;
	touch_retired($node, 8192);
	my $row = verdict_is($node, 'retired_memory', 'warn', 'some of it is there again');
	kill 'CONT', $worker;
	like($row->{found}, qr/: 8192 bytes /, 'retired_memory: to the byte');
	is(Tide::resize($node, '32MB')->{state}, 'done', 'the next resize');
	verdict_is($node, 'retired_memory', 'ok', 'the kernel has it back');
}

# A page of the table is held in each chunk of the pool, so a shrink meets them.
sub check_blockers
{
	my ($node) = @_;
	Tide::resize($node, '64MB');
	Tide::fill($node, 'held', 64);
	Tide::value($node, q{SELECT pg_prewarm('held')});
	my $file = Tide::value($node, q{SELECT pg_relation_filenode('held')});
	my %block = Pins::blocks_by_chunk($node, 'held');
	my $pins = Pins::hold($node, 'held', values %block);
	$pins->{session}->query_safe(q{SELECT 'holding'});
	cmp_ok(scalar keys %block, '>', 20, 'most chunks are held');
	is(Tide::value($node, 'SELECT count(*) FROM tidepool.blockers'), 0, 'in nobody\'s way yet');

	my $request = Tide::ask($node, Tide::resize_sql('20MB', timeout => "'1h'"));
	my $from = "FROM tidepool.blockers WHERE suspected_pid = $pins->{pid}";
	ok(Tide::until('there is a suspect', sub { Tide::value($node, "SELECT count(*) $from") > 0 }),
		'the session is suspected');
	my $row = Tide::row($node, "SELECT *, since < now() AS before $from");
	is($row->{database}, 'postgres', 'database');
	is($row->{relation}, 'held', 'relation');
	is($row->{fork}, 'main', 'fork');
	is($row->{backend_state}, 'idle in transaction', 'state');
	is($row->{before}, JSON::PP::true, 'since when');
	like($row->{query}, qr/holding/, 'query');
	cmp_ok($row->{pinned}, '>', 0, 'pinned buffers');
	is($row->{buffers}, $row->{chunks}, 'one buffer in each of the chunks');
	is($node->safe_psql('template1', "SELECT DISTINCT relation $from"), $file,
		'in another database the file stands for the relation');

	Tide::value($node, 'SELECT tidepool.cancel()');
	is($request->row->{state}, 'cancelled', 'the shrink is cancelled');
	is(Tide::value($node, 'SELECT count(*) FROM tidepool.blockers'), 0, 'nobody is in the way any more');

	my $outcome = Tide::resize($node, '20MB', timeout => "'1s'");
	is($outcome->{code}, 'PINNED_BUFFERS', 'the same with a deadline');
	like($outcome->{message}, qr/suspected process(es)?: (\d+, )*$pins->{pid}\b/, 'the outcome names the session');
	Pins::release($pins);
}

# Whether this machine has huge pages or none: the verdict follows from what was found.
sub check_huge_pages
{
	my ($node) = @_;
	$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 64MB
huge_pages = try
tidepool.huge_pages = try
CONF
	$node->restart;

	my $row = verdict_is($node, 'server_huge_pages', 'warn', 'set to try');
	like($row->{advice}, qr/"huge_pages" to off/, 'server_huge_pages: says what to set');

	my $status = Tide::status($node);
	verdict_is($node, 'backing', $status->{huge_pages_fell_back} ? 'warn' : 'ok', 'as in the status');

	$row = check($node, 'huge_page_headroom');
	my ($need, $free, $room) =
	  $row->{found} =~ /^(\d+) huge pages .* needed .*; (\d+) are free .*, (\d+) more/;
	is($row->{verdict}, $free + $room < $need ? 'warn' : 'ok', 'huge_page_headroom: as it counts')
	  or diag explain $row;
	my $missing = $need - $free - $room;
	return if $missing <= 0;
	like($row->{found}, qr/: $missing are missing/, 'huge_page_headroom: says how many');
	like($row->{advice}, qr/nr_overcommit_hugepages/, 'huge_page_headroom: and where to get them');
}

# Limits that are played: a cgroup with less than the ceiling, and a session with little address space.
sub check_limits
{
	my ($node) = @_;
	my $root = PostgreSQL::Test::Utils::tempdir();

	mkdir "$root/memory";
	append_to_file("$root/$_", 32 * MB . "\n") for 'memory.max', 'memory/memory.limit_in_bytes';
	$node->append_conf('postgresql.conf', <<"CONF");
huge_pages = off
tidepool.huge_pages = off
tidepool.cgroup_root = '$root'
CONF
	$node->restart;
	my $row = verdict_is($node, 'cgroup_limits', 'warn', 'a limit below the ceiling');
	like($row->{found}, qr/\Q$root\E\S*memory\./, 'cgroup_limits: names the file');

	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my ($used) = slurp_file("/proc/$postmaster/status") =~ /^VmSize:\s+(\d+) kB/m;
	verdict_is($node, 'address_space', 'ok', 'no limit');
	system_or_bail('prlimit', '--pid', $postmaster, '--as=' . ($used * 1024 + 512 * MB) . ':');
	verdict_is($node, 'address_space', 'warn', 'a limit of 512 MB more than is mapped');
}

my $node = Tide::new_node(ceiling => '512MB');
$node->safe_psql('template1', 'CREATE EXTENSION tidepool');
check_answers($node);
verdict_is($node, $_, 'ok', 'at start')
  for qw(server_huge_pages backing huge_page_headroom worker tidepool_size retired_memory
  ceiling_overhead floor memlock);
check_rights($node);
check_sizes($node);
check_retired_memory($node);
check_blockers($node);

check_huge_pages($node);
check_limits($node);
$node->stop;

done_testing();
