#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Pages that somebody holds: a shrink goes round their chunks; one that needs these chunks ends
# partial at its deadline, names who may hold them, and succeeds when they are let go.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use List::Util qw(sum0);
use Pins;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

my $node = Tide::new_node(ceiling => '80MB');
Tide::fill($node, 'held', 80);
Tide::value($node, q{SELECT pg_prewarm('held')});

# Every tenth chunk of forty: a quarter of the pool goes round them at once.
my %block = Pins::blocks_by_chunk($node, 'held');
my @tenth = grep { $_ % 10 == 5 } sort { $a <=> $b } keys %block;
is(scalar @tenth, 4, 'there is a page to hold in every tenth chunk');
my $pins = Pins::hold($node, 'held', @block{@tenth});
is(Tide::value($node, "SELECT count(*) FROM tidepool.chunks WHERE pinned > 0"), 4,
	'and it is held');

my $outcome = Tide::resize($node, '20MB', timeout => "'20s'");
is($outcome->{state}, 'done', 'a shrink to a quarter goes round them') or diag explain $outcome;
is($outcome->{allocatable_bytes}, 20 * MB, 'to its size');
is($outcome->{returned_bytes}, 60 * MB, 'three quarters are with the kernel');
like($outcome->{elapsed}, qr/^00:00:0[0-4]/, 'at once');
is( Tide::value(
		$node,
		'SELECT count(*) FROM tidepool.chunks WHERE state = \'active\' AND chunk IN ('
		  . join(',', @tenth) . ')'),
	4,
	'the chunks that are held stay');
Pins::release($pins);
Whole::check($node, 'gone round');

# Held pages in so many chunks that the size cannot be reached.
Tide::resize($node, '80MB');
Tide::value($node, q{SELECT pg_prewarm('held')});
%block = Pins::blocks_by_chunk($node, 'held');
my @many = (sort { $a <=> $b } keys %block)[ 0 .. 24 ];
is(scalar @many, 25, 'there is a page to hold in 25 chunks');
$pins = Pins::hold($node, 'held', @block{@many});

my $request = Tide::ask($node, Tide::resize_sql('20MB', timeout => "'3s'"));
ok( Tide::until(
		'the blockers are shown',
		sub { Tide::value($node, 'SELECT count(*) FROM tidepool.blockers') > 0 }),
	'blockers are shown while it runs');
my $held = Tide::row($node, q{SELECT * FROM tidepool.blockers WHERE relation = 'held' LIMIT 1});
isnt($held, undef, 'the relation is named');
cmp_ok($held->{buffers} // 0, '>=', 1, 'with its buffers');
my $suspects = Tide::value($node, 'SELECT string_agg(b::text, chr(10)) FROM tidepool.blockers b');
like($suspects, qr/\b$pins->{pid}\b/, 'the session is among the suspects');
like($suspects, qr/idle in transaction/, 'with its state');

$outcome = $request->row;
is($outcome->{state}, 'partial', 'it ends partial') or diag explain $outcome;
is($outcome->{code}, 'PINNED_BUFFERS', 'because of the pins');
cmp_ok($outcome->{blocked_chunks}, '>', 0, 'blocked chunks are counted');
like($outcome->{elapsed}, qr/^00:00:0[34]/, 'at its deadline');
is($outcome->{allocatable_bytes}, 50 * MB, 'what could be returned was returned');
is($outcome->{committed_bytes}, 50 * MB, 'and no more');
is(Tide::value($node, 'SELECT count(*) FROM tidepool.blockers'),
	0, 'nobody blocks what does not run');
is($pins->{session}->query_safe("FETCH BACKWARD c$block{$many[0]}; SELECT 1"),
	1, 'the session goes on');
is(Tide::value($node, 'SELECT count(*) FROM tidepool.chunks WHERE pinned > 0'),
	24, 'the pages that are held are where they were');

# All or nothing: the size that must be reached is out of reach, so it goes back.
Tide::resize($node, '80MB');
$outcome = Tide::resize($node, '20MB', min_acceptable => q{'24MB'}, timeout => "'1s'");
is($outcome->{state}, 'failed', 'a shrink that does not reach what is acceptable is undone')
  or diag explain $outcome;
is($outcome->{code}, 'PINNED_BUFFERS', 'because of the pins');
is($outcome->{allocatable_bytes}, 80 * MB, 'the old size is back');

Pins::release($pins);
Whole::check($node, 'deadline');
$outcome = Tide::resize($node, '20MB', timeout => "'20s'");
is($outcome->{state}, 'done', 'after the cursors are closed it succeeds');
is($outcome->{allocatable_bytes}, 20 * MB, 'to its size');
is( Tide::value($node, 'SELECT count(*), sum(id) FROM held'),
	(80 * 128) . '|' . (80 * 64 * (80 * 128 + 1)),
	'every row is there');
Whole::check($node, 'succeeded');
$node->stop;

done_testing();
