#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# What looks at the whole pool goes on looking while it is resized, and what sets and resets
# settings does not change its size.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Time::HiRes qw(time);
use Whole;

use constant MB => 1024 * 1024;

my $node = Tide::new_node(name => 'views', ceiling => '96MB', size => '48MB');
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION pg_visibility;
CREATE EXTENSION amcheck;
CREATE TABLE watched (id int PRIMARY KEY, filler text);
INSERT INTO watched SELECT i, repeat('x', 400) FROM generate_series(1, 40000) i;
VACUUM watched;
SQL

# Each answers t, whatever the size is at that moment.
my @questions = (
	q{SELECT count(*) = 96 * 128 FROM pg_buffercache},
	q{SELECT count(*) > 0 FROM pg_buffercache WHERE NOT isdirty},
	q{SELECT pg_prewarm('watched') > 2000},
	q{SELECT count(*) > 2000 FROM pg_visibility('watched')},
	q{SELECT count(*) = 0 FROM pg_check_visible('watched')},
	q{SELECT bt_index_check('watched_pkey', true) IS NOT NULL},
	q{SELECT count(*) = 0 FROM verify_heapam('watched')},
	q{SELECT count(*) = 40000 AND sum(id) = 800020000 FROM watched},
	q{SELECT count(*) = 48 FROM tidepool.chunks},
	q{SELECT sum(parked) BETWEEN 0 AND 96 * 128 FROM tidepool.chunks},
	q{SELECT allocatable_bytes BETWEEN min_bytes AND max_bytes FROM tidepool.status},
	q{SELECT committed_bytes BETWEEN min_bytes AND max_bytes FROM tidepool.status},
	q{SELECT returned_pool_bytes + returned_os_bytes + committed_bytes = max_bytes
		FROM tidepool.status},
	q{SELECT count(*) <= 1 FROM tidepool.progress},
	q{SELECT count(*) <= 100 FROM tidepool.history},
	q{SELECT count(*) >= 0 FROM tidepool.blockers});
push @questions,
  q{SELECT buffers_used + buffers_unused = 96 * 128 FROM pg_buffercache_summary()},
  q{SELECT sum(buffers) = 96 * 128 FROM pg_buffercache_usage_counts()}
  if $ENV{TIDE_SERVER} >= 16;
push @questions, q{SELECT count(*) >= 0 FROM pg_shmem_allocations_numa},
  q{SELECT count(*) > 0 FROM pg_buffercache_numa}
  if $ENV{TIDE_SERVER} >= 18 && Tide::value($node, 'SELECT pg_numa_available()') eq 't';
$node->safe_psql('postgres', 'ALTER EXTENSION pg_buffercache UPDATE');

sub start
{
	my ($sql) = @_;
	my $self = { in => $sql, out => '' };
	$self->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{out});
	return $self;
}

sub sizes
{
	my ($count) = @_;
	return join '',
	  map { "SELECT state FROM tidepool.resize('" . (16 + int rand 81) . "MB');\n" } 1 .. $count;
}

# Resizes without a break, and every question over and over.
sub look_while_it_moves
{
	my $end = time + Tide::seconds(8, 60);
	my $resizes = 0;
	my %wrong;

	while (time < $end)
	{
		my $resizer = start(sizes(60));
		my $observer = start(join '', map { "$_;\n" } @questions);
		my @answers;
		$_->{run}->finish for $observer, $resizer;
		my @lines = split /\n/, $observer->{out};
		$wrong{ $questions[$_] } = $lines[$_] // 'no answer'
		  for grep { ($lines[$_] // '') ne 't' } 0 .. $#questions;
		$resizes += () = $resizer->{out} =~ /^done$/mg;
		$wrong{resize} = $1 if $resizer->{out} =~ /^((?!done|partial).+)$/m;
	}
	is_deeply(\%wrong, {}, 'every view gives the right answer while the pool moves')
	  or diag explain \%wrong;
	cmp_ok($resizes, '>=', 60, "while it was resized: $resizes times");
	Whole::check($node, 'views');
}

# Nobody else owns the size: it is not a session's.
sub settings
{
	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION with_settings() RETURNS text LANGUAGE sql
	SET work_mem = '8MB' AS $$ SELECT current_setting('tidepool.size') $$;
SQL
	Tide::resize($node, '64MB');
	my $operations = Tide::status($node)->{generation};
	for my $sql (
		'RESET ALL',
		'DISCARD ALL',
		'RESET tidepool.size',
		'SELECT with_settings()',
		q{SELECT set_config('tidepool.size', '20MB', false)},
		q{SELECT set_config('tidepool.size', '20MB', true)},
		q{SET LOCAL tidepool.size = '20MB'},
		q{ALTER FUNCTION with_settings() SET tidepool.size = '20MB'; SELECT with_settings()},
		q{ALTER DATABASE postgres SET tidepool.size = '20MB'},
		q{ALTER ROLE CURRENT_USER SET tidepool.size = '20MB'})
	{
		$node->psql('postgres', $sql);
		my $status = Tide::status($node);
		is($status->{allocatable_bytes}, 64 * MB, "$sql: the size stays");
		is($status->{generation}, $operations, "$sql: nothing was resized");
	}
	is(Tide::value($node, 'SHOW tidepool.size'), '48MB', 'the setting is what the file says');
	Whole::check($node, 'settings');
}

look_while_it_moves();
settings();
$node->stop;
done_testing();
