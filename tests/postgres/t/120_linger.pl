#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Memory that lingers: it was given up and is still committed. It counts as committed and not as
# returned, comes back into use without a commit, and goes when its time is over.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Kernel;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

my $node = Tide::new_node(name => 'linger', conf => "tidepool.linger = '1h'\n");
Tide::fill($node, 'filled', 48);
Tide::value($node, q{SELECT pg_prewarm('filled')});

sub counts
{
	my ($status) = @_;
	return [ @{ $status->{chunks} }{qw(active lingering retired)} ];
}

my $outcome = Tide::resize($node, '24MB');
is($outcome->{state}, 'done', 'a shrink that lingers is done');
is($outcome->{allocatable_bytes}, 24 * MB, 'its size');
is($outcome->{committed_bytes}, 64 * MB, 'everything is committed');
is($outcome->{returned_bytes}, 0, 'nothing is returned');
my $status = Tide::status($node);
is_deeply(counts($status), [ 12, 20, 0 ], 'chunks by state');
is($status->{committed_bytes}, 64 * MB, 'status: committed');
is($status->{returned_pool_bytes} + $status->{returned_os_bytes}, 0, 'status: returned');
is(Kernel::backed_bytes($status->{worker_pid}) - $status->{metadata_bytes},
	64 * MB, 'the kernel agrees');
Whole::check($node, 'lingering');

$outcome = Tide::resize($node, '44MB');
is($outcome->{state}, 'done', 'it grows again');
ok(!exists $outcome->{phases}{commit_ms}, 'without a commit') or diag explain $outcome->{phases};
is_deeply(counts(Tide::status($node)), [ 22, 10, 0 ], 'chunks by state');
Whole::check($node, 'grown from what lingered');

# A cancel in between leaves what lingered lingering.
Tide::resize($node, '24MB');
my $request = Tide::held_request($node, 'publish', Tide::resize_sql('64MB'));
Tide::value($node, 'SELECT tidepool.cancel()');
Tide::release($node);
is($request->row->{state}, 'cancelled', 'a grow from what lingers can be cancelled');
is_deeply(counts(Tide::status($node)), [ 12, 20, 0 ], 'and it lingers on');
Whole::check($node, 'cancelled');

# Its time is that of the operation that gave it up.
Tide::resize($node, '64MB');
Tide::value($node, q{ALTER SYSTEM SET tidepool.linger = '1s'});
$node->reload;
ok( Tide::until('the setting is known', sub { Tide::value($node, 'SHOW tidepool.linger') eq '1s' }),
	'a shorter time');
$outcome = Tide::resize($node, '24MB');
is($outcome->{committed_bytes}, 64 * MB, 'it lingers');
ok(Tide::until('the time is over', sub { Tide::status($node)->{committed_bytes} == 24 * MB }),
	'and goes when the time is over');
is_deeply(counts(Tide::status($node)), [ 12, 0, 20 ], 'chunks by state');
Whole::check($node, 'expired');

# A worker that comes new finds what lingers.
Tide::value($node, q{ALTER SYSTEM SET tidepool.linger = '2s'});
$node->reload;
Tide::until('the setting is known', sub { Tide::value($node, 'SHOW tidepool.linger') eq '2s' });
Tide::resize($node, '64MB');
Tide::resize($node, '24MB');
my $pid = Tide::status($node)->{worker_pid};
Tide::value($node, "SELECT pg_terminate_backend($pid)");
ok( Tide::until(
		'there is a worker again',
		sub { Tide::value($node, "SELECT worker_pid <> $pid FROM tidepool.status") eq 't' }),
	'the worker comes back');
ok(Tide::until('the time is over', sub { Tide::status($node)->{committed_bytes} == 24 * MB }),
	'what lingered goes all the same');
Whole::check($node, 'a new worker');

# Off again: it is returned at once.
Tide::value($node, q{ALTER SYSTEM SET tidepool.linger = 0});
$node->reload;
Tide::until('the setting is known', sub { Tide::value($node, 'SHOW tidepool.linger') eq '0' });
Tide::resize($node, '64MB');
is(Tide::resize($node, '24MB')->{committed_bytes}, 24 * MB,
	'without it memory is returned at once');
Whole::check($node, 'off');
$node->stop;

done_testing();
