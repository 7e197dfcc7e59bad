# SPDX-License-Identifier: PostgreSQL
#
# Servers with tidepool, and what every test asks of them.
#
#   my $node = Tide::new_node(ceiling => '64MB', size => '32MB', conf => "...");
#   my $outcome = Tide::resize($node, '16MB');          # { state => 'done', ... }
#   my $request = Tide::held_request($node, 'drain', Tide::resize_sql('16MB'));
#                                                       # held at a pause point; see Request
#   Tide::release($node);
#   Whole::check($node, 'after ...');                   # see Whole

package Tide;

use strict;
use warnings;

use File::Basename qw(dirname);
use JSON::PP;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Request;
use Test::More;
use Time::HiRes qw(sleep time);

use constant MB => 1024 * 1024;
use constant DEADLINE => 60;

my $module = dirname(__FILE__) . '/../module';
my %built;

sub long_run { return $ENV{TIDE_TEST_LONG} ? 1 : 0 }

# How long a load runs.
sub seconds
{
	my ($short, $long) = @_;
	return $ENV{TIDE_TEST_SECONDS} // (long_run() ? $long : $short);
}

# Builds a file of tests/postgres/module; returns what was built.
sub compile
{
	my ($name, $file, @options) = @_;
	return $built{$file} if $built{$file};

	my $path = PostgreSQL::Test::Utils::tempdir() . "/$file";
	system_or_bail('cc', '-std=gnu11', '-O1', @options, '-o', $path, "$module/$name.c", '-ldl');
	return $built{$file} = $path;
}

# A library for the server under test.
sub build
{
	my ($name) = @_;
	chomp(my $include = qx($ENV{TIDE_PG_CONFIG} --includedir-server));
	return compile($name, "$name.so", '-fPIC', '-shared', '-I', $include);
}

sub build_program { return compile($_[0], $_[0]) }

# Few backends, so that the floor is as low as it can be; nothing works by itself.
sub settings
{
	my (%want) = @_;
	my $size = defined $want{size} ? "tidepool.size = '$want{size}'" : '';
	my $huge = $want{huge_pages} // 'off';
	my $ceiling = $want{ceiling} // '64MB';

	my $slots = $ENV{TIDE_SERVER} >= 18 ? 'autovacuum_worker_slots = 1' : '';

	return <<"CONF" . ($want{conf} // '');
shared_preload_libraries = 'tidepool'
shared_buffers = $ceiling
huge_pages = off
tidepool.huge_pages = $huge
$size
max_connections = 20
max_worker_processes = 4
$slots
autovacuum_max_workers = 1
autovacuum = off
effective_io_concurrency = 1
maintenance_io_concurrency = 1
checkpoint_timeout = 1h
log_statement = none
log_checkpoints = off
restart_after_crash = on
CONF
}

# Test builds of the extension have pause points; the module scans the pool.
my $functions = <<'SQL';
CREATE EXTENSION tidepool;
CREATE EXTENSION pg_buffercache;
CREATE EXTENSION pg_prewarm;
CREATE SCHEMA tidepool_pause;
CREATE FUNCTION tidepool_pause.arm(point text) RETURNS void
	AS '$libdir/tidepool', 'tidepool_pause_arm' LANGUAGE C STRICT;
CREATE FUNCTION tidepool_pause.release() RETURNS void
	AS '$libdir/tidepool', 'tidepool_pause_release' LANGUAGE C STRICT;
CREATE FUNCTION tidepool_pause.reached() RETURNS boolean
	AS '$libdir/tidepool', 'tidepool_pause_reached' LANGUAGE C STRICT;
CREATE SCHEMA tide_test;
CREATE FUNCTION tide_test.scan(buffers_per_chunk int, OUT chunk int, OUT held int, OUT free int,
	OUT tagged int, OUT pinned int, OUT broken int) RETURNS SETOF record
	AS 'LIBRARY', 'tide_test_scan' LANGUAGE C STRICT;
CREATE FUNCTION tide_test.hold_partition(rel regclass, block bigint, file text) RETURNS void
	AS 'LIBRARY', 'tide_test_hold_partition' LANGUAGE C STRICT;
SQL

sub create_functions
{
	my ($node) = @_;
	my $library = build('tide_test');
	$node->safe_psql('postgres', $functions =~ s/LIBRARY/$library/gr);
}

# ceiling, size, huge_pages, conf: settings; name; init: options of Cluster::init; start => 0
sub new_node
{
	my (%want) = @_;
	my $node = PostgreSQL::Test::Cluster->new($want{name} // 'main');

	$node->init(%{ $want{init} // {} });
	$node->append_conf('postgresql.conf', settings(%want));
	return $node if defined $want{start} && !$want{start};
	$node->start;
	create_functions($node);
	return $node;
}

# One row as a hash.
sub row
{
	my ($node, $sql) = @_;
	my $text = $node->safe_psql('postgres', "SELECT row_to_json(r) FROM ($sql) r");
	return $text eq '' ? undef : decode_json($text);
}

sub value
{
	my ($node, $sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

sub status
{
	my ($node) = @_;
	return row($node, 'SELECT * FROM tidepool.status');
}

# The statement that resizes: size and named arguments, e.g. (timeout => "'1s'").
sub resize_sql
{
	my ($size, %arguments) = @_;
	my $more = join '', map { ", $_ => $arguments{$_}" } sort keys %arguments;
	return "SELECT * FROM tidepool.resize('$size'$more)";
}

sub resize
{
	my ($node, @arguments) = @_;
	return row($node, resize_sql(@arguments));
}

# The SQLSTATE that a statement ends with; '' when it succeeds.
sub sqlstate
{
	my ($node, $sql, %options) = @_;
	my $user = $options{user} ? " user=$options{user}" : '';
	my ($out, $err);
	$node->psql(
		'postgres', $sql,
		stdout => \$out,
		stderr => \$err,
		connstr => $node->connstr('postgres') . $user,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	return $err =~ /(?:ERROR|FATAL): +(\w{5})/ ? $1 : $err;
}

# Waits for a condition of the test itself.
sub until
{
	my ($what, $condition) = @_;
	my $end = time + DEADLINE;
	while (time < $end)
	{
		return 1 if $condition->();
		sleep 0.02;
	}
	diag("waited in vain until $what");
	return 0;
}

sub ask
{
	my ($node, $sql) = @_;
	return Request->new($node, $sql);
}

# A session that stays open for the questions of the test itself: they are many.
sub session
{
	my ($node) = @_;
	return $node->{tide_session} if $node->{tide_session} && $node->{tide_session}{run}->pumpable;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->set_query_timer_restart;
	return $node->{tide_session} = $session;
}

# The server is about to go, or went.
sub forget_session
{
	my ($node) = @_;
	my $session = delete $node->{tide_session} or return;
	eval { $session->quit };
}

sub arm
{
	my ($node, $point) = @_;
	session($node)->query("SELECT tidepool_pause.arm('$point')");
}

sub reached
{
	my ($node) = @_;
	my $session = session($node);
	return Tide::until('the worker is held at the pause point',
		sub { $session->query('SELECT tidepool_pause.reached()') eq 't' });
}

sub release
{
	my ($node) = @_;
	session($node)->query('SELECT tidepool_pause.release()');
}

# A request that is held at a point.
sub held_request
{
	my ($node, $point, $sql) = @_;
	arm($node, $point);
	my $request = ask($node, $sql);
	ok(reached($node), "held at $point") or note $request->finish;
	return $request;
}

# A relation that fills so many MB, one row a page; an update stays on the page.
sub fill
{
	my ($node, $table, $megabytes) = @_;
	my $rows = $megabytes * 128;
	$node->safe_psql('postgres', <<"SQL");
CREATE TABLE $table (id int, filler text) WITH (fillfactor = 10);
ALTER TABLE $table ALTER filler SET STORAGE PLAIN;
INSERT INTO $table SELECT i, repeat('x', 1200) FROM generate_series(1, $rows) i;
VACUUM $table;
CHECKPOINT;
SQL
}

# What a real hugetlb limit of our control group (v2) leaves; undef where there is none.
sub huge_limit_bytes
{
	my ($group) = slurp_file('/proc/self/cgroup') =~ /^0::(.*)$/m or return undef;
	for my $folder (map { "$_$group" } '/sys/fs/cgroup', '/sys/fs/cgroup/unified')
	{
		next unless -e "$folder/hugetlb.2MB.max";
		my $limit = slurp_file("$folder/hugetlb.2MB.max");
		return $limit - slurp_file("$folder/hugetlb.2MB.current") if $limit =~ /^\d/;
	}
	return undef;
}

# Bytes that can be committed in huge pages of 2 MB, as far as one can see.
sub huge_bytes
{
	my $folder = '/sys/kernel/mm/hugepages/hugepages-2048kB';
	return 0 unless -d $folder;
	my %pages = map { $_ => slurp_file("$folder/$_") + 0 }
	  qw(free_hugepages resv_hugepages nr_overcommit_hugepages surplus_hugepages);
	my $bytes =
	  2 * MB *
	  ($pages{free_hugepages} -
		  $pages{resv_hugepages} +
		  $pages{nr_overcommit_hugepages} -
		  $pages{surplus_hugepages});
	return min($bytes, huge_limit_bytes() // $bytes);
}

# Why a server with a pool of so many MB in huge pages cannot be tested now; undef when it can.
sub no_huge_pages
{
	my ($megabytes) = @_;
	my $have = huge_bytes() / MB;
	my $need = $megabytes + 16;
	return undef if $have >= $need;
	return "$need MB of huge pages are needed, $have can be had: raise vm.nr_overcommit_hugepages";
}

# 'off', and 'on' where huge pages can be had; the other way is skipped with its reason.
sub each_backing
{
	my ($megabytes, $test) = @_;
	$test->('off');
  SKIP:
	{
		my $why = no_huge_pages($megabytes);
		skip $why, 1 if $why;
		$test->('on');
	}
}

1;
