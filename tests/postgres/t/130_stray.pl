#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Reads of retired buffers by a tool that walks the pool: memory that they allocate is found and given
# back, and where there is none the query fails instead of the server.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Test::More;
use Tide;
use Whole;

my $node = Tide::new_node(ceiling => '64MB', size => '32MB');
my $library = Tide::build('stray');

$node->safe_psql('postgres', <<"SQL");
CREATE FUNCTION tide_test.touch(buffer int) RETURNS int AS '$library', 'tide_test_touch' LANGUAGE C STRICT;
CREATE FUNCTION tide_test.bus_error(buffer int) RETURNS void
	AS '$library', 'tide_test_bus_error' LANGUAGE C STRICT;
SQL

# The first buffer of a retired and of an active chunk, counted from 1.
my ($retired, $active) = map {
	Tide::value($node, "SELECT chunk * 256 + 1 FROM tidepool.chunks WHERE state = '$_' ORDER BY 1 LIMIT 1")
} qw(retired active);

my $before = Tide::status($node)->{committed_bytes};
Tide::value($node, "SELECT tide_test.touch($retired)");
cmp_ok(Tide::status($node)->{committed_bytes}, '>', $before, 'a read of a retired buffer allocates memory');
my $outcome = Tide::resize($node, '32MB');
is($outcome->{state}, 'done', 'a resize finds it');
is(Tide::status($node)->{committed_bytes}, $before, 'and gives it back');
$node->log_check('the log tells', 0, log_like => [qr/releasing \d+ kB that a read of retired buffers/]);

# The worker looks by itself when it goes idle, which it does after a reload.
Tide::value($node, "SELECT tide_test.touch($retired)");
$node->reload;
ok( Tide::until('it is given back',
		sub { Tide::status($node)->{committed_bytes} == $before }),
	'an idle worker finds it as well');

is(Tide::sqlstate($node, "SELECT tide_test.bus_error($retired)"), '55000',
	'without memory the query fails');
is(Tide::sqlstate($node, "SELECT tide_test.bus_error($retired), tide_test.bus_error($retired)"), '55000',
	'and may do so again');
is(Tide::value($node, 'SELECT 1'), 1, 'the server goes on');

SKIP:
{
	skip 'pg_buffercache_numa comes with 18', 2 if $ENV{TIDE_SERVER} < 18;
	skip 'this server was built without libnuma', 2
	  if Tide::value($node, 'SELECT pg_numa_available()') ne 't';
	is(Tide::value($node, 'SELECT count(DISTINCT bufferid) FROM pg_buffercache_numa'), 64 * 128,
		'pg_buffercache_numa reads every buffer');
	cmp_ok(Tide::value($node, q{SELECT sum(size) FROM pg_shmem_allocations_numa}), '<', 64 * Tide::MB,
		'pg_shmem_allocations_numa does not count what has moved');
	Tide::resize($node, '32MB');
}
Whole::check($node, 'stray reads');

# A bus error anywhere else keeps its meaning: the access is repeated and meets the default action.
$node->psql('postgres', "SELECT tide_test.bus_error($active), tide_test.bus_error($active)");
$node->poll_query_until('postgres', 'SELECT true') or die 'the server did not come back';
$node->log_check('a real bus error ends the process', 0, log_like => [qr/terminated by signal 7/]);
$node->stop;
done_testing();
