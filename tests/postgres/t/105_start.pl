#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Other ways to start the server's program with the library preloaded: they work, whatever the
# machine has. And machines that are too small for the pool: the server works or says exactly why
# not.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

my $node = Tide::new_node(name => 'start', size => '32MB');
Tide::value($node, 'CREATE TABLE kept AS SELECT i FROM generate_series(1, 1000) i');
my $data = $node->data_dir;

# Runs a command and returns its exit code and all that it says.
sub run_command_in
{
	my ($in, @command) = @_;
	my $out = '';
	IPC::Run::run(\@command, '<', \$in, '>', \$out, '2>', \$out);
	return ($? >> 8, $out);
}

sub single_user
{
	$node->stop;
	$node->append_conf('postgresql.conf', "tidepool.huge_pages = on\n");
	my ($code, $out) = run_command_in(
		"SELECT count(*) FROM kept\nSELECT * FROM tidepool.resize('16MB')\nUPDATE kept SET i = i\n",
		'postgres', '--single', '-D', $data, 'postgres');
	is($code, 0, 'single-user mode ends well') or diag($out);
	like($out, qr/count = "1000"/, 'and works');
	like(
		$out,
		qr/ERROR:  tidepool does not manage the buffer pool of this server/,
		'without resizing');
	$node->append_conf('postgresql.conf', "tidepool.huge_pages = off\n");
	$node->start;
	Whole::check($node, 'after single-user mode');
}

sub print_settings
{
	$node->stop;
	for my $setting (
		[ 'shared_buffers', qr/^8192$/m ],
		[ 'tidepool.size', qr/^32MB$/m ],
		[ 'shared_memory_size', qr/^\d+$/m ],
		[ 'shared_memory_size_in_huge_pages', qr/^\d+$/m ])
	{
		my ($name, $expected) = @$setting;
		my ($code, $out) =
		  run_command_in('', 'postgres', '-C', $name, '-D', $data, '-c', 'tidepool.huge_pages=on');
		is($code, 0, "postgres -C $name");
		like($out, $expected, "postgres -C $name: answer");
	}
	$node->start;
}

# A share folder whose sample configuration preloads the library, so that initdb's servers do.
sub initdb
{
	my $share = PostgreSQL::Test::Utils::tempdir();
	chomp(my $from = qx($ENV{TIDE_PG_CONFIG} --sharedir));
	symlink $_, $share . '/' . s{.*/}{}r for grep { !/postgresql\.conf\.sample$/ } glob "$from/*";
	append_to_file("$share/postgresql.conf.sample",
		slurp_file("$from/postgresql.conf.sample")
		  . "shared_preload_libraries = 'tidepool'\ntidepool.huge_pages = on\n");
	my ($code, $out) =
	  run_command_in('', 'initdb', '-L', $share, '--no-sync', '-A', 'trust', '-D', "$share/data");
	is($code, 0, 'initdb') or diag($out);
	like(
		slurp_file("$share/data/postgresql.conf"),
		qr/^shared_preload_libraries = 'tidepool'/m,
		'with the library preloaded');
}

sub upgrade_check
{
	my $new = Tide::new_node(name => 'upgrade', start => 0);
	my $bin = $node->config_data('--bindir');
	$node->stop;
	my ($code, $out) = do
	{
		local $ENV{PGHOST} = $node->host;
		run_command_in('', 'pg_upgrade', '--check', '-b', $bin, '-B', $bin, '-d', $data, '-D',
			$new->data_dir, '-s', $node->host, '-p', $node->port, '-P', $new->port);
	};
	is($code, 0, 'pg_upgrade --check') or diag($out);
	like($out, qr/Clusters are compatible/, 'finds nothing wrong');
	$node->start;
	is(Tide::resize($node, '24MB')->{state}, 'done', 'and leaves the server as it was');
}

# The server under a limit of its address space, in kB.
sub address_limit
{
	my ($kb) = @_;
	$node->stop;
	my $offset = -s $node->logfile;
	my $start = sprintf 'ulimit -v %d && exec pg_ctl -w -D %s -l %s -o --cluster-name=start start',
	  $kb, $data, $node->logfile;
	my ($code) = run_command_in('', 'sh', '-c', $start);
	return ($code, slurp_file($node->logfile, $offset));
}

sub small_address_space
{
	my ($code, $log) = address_limit(1024 * 1024);
	isnt($code, 0, 'with 1 GB of address space the server does not start');
	like($log, qr/FATAL:  could not reserve the buffer pool/, 'because of the pool');
	like($log, qr/DETAIL:  NOT_ENOUGH_MEMORY: .*RLIMIT_AS|address space/, 'because of the limit');
	like($log, qr/HINT:  .*ulimit -v/, 'and says what to do');
	unlike($log, qr/terminated by signal|PANIC/, 'and nothing worse happens');

	($code, $log) = address_limit(8 * 1024 * 1024);
	is($code, 0, 'with 8 GB it starts') or diag($log);
	$node->_update_pid(1);
	is(Tide::resize($node, '64MB')->{state}, 'done', 'and grows');
	is(Tide::resize($node, '16MB')->{state}, 'done', 'and shrinks');
	Whole::check($node, 'a limited address space');
	$node->restart;
}

# Strict accounting: the whole machine is told, so only when that is allowed.
sub strict_overcommit
{
	my $file = '/proc/sys/vm/overcommit_memory';
	my $found = slurp_file($file) + 0;
	my $changed = 0;
	if ($found != 2)
	{
		skip
		  'vm.overcommit_memory is not 2, and this run is not one that changes it (TIDE_TEST_LONG)',
		  1
		  unless Tide::long_run();
		open my $fh, '>', $file
		  or skip "vm.overcommit_memory is not 2, and only root can change it", 1;
		print $fh "2\n";
		close $fh or skip "vm.overcommit_memory could not be changed: $!", 1;
		$changed = 1;
	}
	$node->stop;
	my $offset = -s $node->logfile;
	my $started = $node->start(fail_ok => 1);
	if ($changed)
	{
		open my $fh, '>', $file or die "$file: $!\n";
		print $fh "$found\n";
		close $fh or die "$file: $!\n";
	}
	my $log = slurp_file($node->logfile, $offset);
	if ($started)
	{
		is(Tide::resize($node, '64MB')->{state}, 'done', 'under strict overcommit it grows');
		Whole::check($node, 'strict overcommit');
	}
	else
	{
		like($log, qr/FATAL:.*\n.*overcommit/,
			'under strict overcommit it says why it does not start');
	}
}

# Huge pages that are required and cannot be had: the shortfall, exactly. With try: without them.
sub no_huge_pages
{
	my $root = PostgreSQL::Test::Utils::tempdir();
	for my $line (split /\n/, slurp_file('/proc/self/cgroup'))
	{
		my ($path) = $line =~ /^0::(.*)$/ or next;
		system_or_bail('mkdir', '-p', "$root/unified$path");
	}
	system_or_bail('mkdir', '-p', "$root/unified");
	append_to_file("$root/unified/hugetlb.2MB.max", 8 * MB . "\n");
	append_to_file("$root/unified/hugetlb.2MB.current", "0\n");
	$node->append_conf('postgresql.conf',
		"tidepool.cgroup_root = '$root'\ntidepool.huge_pages = on\n");
	$node->stop;
	my $offset = -s $node->logfile;
	my ($code) = run_command_in('', 'pg_ctl', '-w', '-D', $data, '-l', $node->logfile, 'start');
	my $log = slurp_file($node->logfile, $offset);
	isnt($code, 0, 'huge_pages = on without huge pages: it does not start');
	like($log, qr/FATAL:  could not (reserve|commit) the buffer pool/, 'and says so');
	like($log, qr/DETAIL:  HUGE\w+: .*leaves 8 ?Mi?B/, 'what can be had');
	like($log, qr/HINT:  /, 'and what to do');

	$node->append_conf('postgresql.conf', "tidepool.huge_pages = try\n");
	$offset = -s $node->logfile;
	$node->start;
	my $status = Tide::status($node);
	is($status->{huge_pages_fell_back},
		JSON::PP::true, 'huge_pages = try: it goes without, and shows it');
	like($status->{fallback_reason}, qr/leaves 8 ?Mi?B/, 'with the reason');
	isnt($status->{backing}, 'hugetlb', 'the backing that it has');
	my @logged = slurp_file($node->logfile, $offset) =~ /goes without explicit huge pages/g;
	is(scalar @logged, 1, 'logged once');
	is(Tide::resize($node, '64MB')->{state}, 'done', 'and it grows');
	Whole::check($node, 'without huge pages');
}

single_user();
print_settings();
initdb();
upgrade_check();
small_address_space();
no_huge_pages();
SKIP: { strict_overcommit() }
$node->stop;
done_testing();
