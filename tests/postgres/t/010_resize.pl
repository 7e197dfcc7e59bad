#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# The basics: shrink, grow, what is reported, dry run, persist, reload, percentage; with 4 kB pages
# and with huge pages.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

sub resized
{
	my ($outcome, $direction, $megabytes, $name) = @_;
	is($outcome->{state}, 'done', "$name: done") or diag explain $outcome;
	is($outcome->{code}, 'OK', "$name: code");
	is($outcome->{message}, undef, "$name: no message");
	is($outcome->{direction}, $direction, "$name: direction");
	is($outcome->{requested_bytes}, $megabytes * MB, "$name: requested");
	is($outcome->{allocatable_bytes}, $megabytes * MB, "$name: allocatable");
	is($outcome->{committed_bytes}, $megabytes * MB, "$name: committed");
	is($outcome->{blocked_chunks}, 0, "$name: nothing in the way");
	like($outcome->{elapsed}, qr/^\d\d:\d\d:\d\d/, "$name: elapsed");
}

sub shrink_and_grow
{
	my ($node) = @_;
	Tide::fill($node, 'filled', 48);
	Tide::value($node, q{SELECT pg_prewarm('filled')});
	Tide::value($node, 'UPDATE filled SET id = id + 1 WHERE id % 8 = 0');

	my $outcome = Tide::resize($node, '24MB');
	resized($outcome, 'shrink', 24, 'shrink');
	is($outcome->{returned_bytes}, 40 * MB, 'the kernel has 40 MB back');
	cmp_ok($outcome->{evicted_pages}, '>', 3000, 'pages were dropped');
	cmp_ok($outcome->{written_pages}, '>', 100, 'dirty pages were written');
	for my $phase (qw(fence drain release verify))
	{
		ok(exists $outcome->{phases}{"${phase}_ms"}, "the time of $phase is shown");
	}
	Whole::check($node, 'shrink');
	is(Tide::value($node, 'SELECT count(*) FROM filled WHERE id % 8 = 1'),
		2 * 768, 'what was written is read again');

	resized(Tide::resize($node, '64MB'), 'grow', 64, 'grow');
	Whole::check($node, 'grow');
	resized(Tide::resize($node, '64 MB'), 'none', 64, 'the size that it has');
	Whole::check($node, 'no change');
}

# Capacity that was announced can be used at once: nothing is evicted until it is full.
sub usable_at_once
{
	my ($node) = @_;
	Tide::resize($node, '16MB');
	Tide::value($node, q{SELECT pg_prewarm('filled')});
	my $before =
	  Tide::value($node, 'SELECT count(*) FROM pg_buffercache WHERE relfilenode IS NOT NULL');
	Tide::resize($node, '56MB');
	my $fresh = (56 - 16) * 128 - 64;
	Tide::fill($node, 'fresh', 40);
	Tide::value($node, q{SELECT pg_prewarm('fresh')});
	my $after =
	  Tide::value($node, 'SELECT count(*) FROM pg_buffercache WHERE relfilenode IS NOT NULL');
	cmp_ok($after - $before, '>=', $fresh, 'as many buffers as were added were filled');
	Whole::check($node, 'filled after a grow');
	Tide::value($node, 'DROP TABLE fresh');
}

sub views
{
	my ($node, $huge) = @_;
	Tide::resize($node, '32MB');
	my $status = Tide::status($node);
	is($status->{backing}, $huge eq 'on'    ? 'hugetlb' : 'base', 'backing');
	is($status->{page_bytes}, $huge eq 'on' ? 2 * MB    : 4096, 'page size');
	is($status->{huge_pages_fell_back}, JSON::PP::false, 'nothing fell back');
	is($status->{max_bytes}, 64 * MB, 'maximum');
	is($status->{min_bytes}, 16 * MB, 'minimum');
	is($status->{target_bytes}, 32 * MB, 'target');
	is($status->{chunk_bytes}, 2 * MB, 'chunk');
	is_deeply([ @{ $status->{chunks} }{qw(active retired)} ], [ 16, 16 ], 'chunks by state');
	is($status->{returned_pool_bytes} + $status->{returned_os_bytes}, 32 * MB, 'returned');
	cmp_ok($status->{worker_pid}, '>', 0, 'the worker');
	is($status->{last_state}, 'done', 'last state');
	is($status->{last_code}, 'OK', 'last code');
	isnt($status->{numa}, '', 'placement in words');

	is(Tide::value($node, 'SELECT count(*) FROM tidepool.progress'), 0, 'no progress at rest');
	is(Tide::value($node, 'SELECT count(*) FROM tidepool.chunks'), 32, 'a row for each chunk');
	my $last = Tide::row($node, 'SELECT * FROM tidepool.history ORDER BY operation DESC LIMIT 1');
	is_deeply(
		[ @{$last}{qw(source state direction requested_bytes allocatable_bytes)} ],
		[ 'sql', 'done', 'shrink', 32 * MB, 32 * MB ],
		'the last row of the history');
	is($last->{operation}, $status->{generation}, 'and its number');
	like(
		slurp_file($node->logfile),
		qr/LOG:\ \ resize\ done:\ 56\ MB\ ->\ 32\ MB\ of\ 32\ MB\ asked;
			\ committed=32\ MB,\ returned=24\ MB;\ evicted=\d+,\ written=\d+,\ blocked\ chunks=0;
			\ commit=[\d.]+\ s,\ .*total=[\d.]+\ s/x,
		'the line in the log');
}

sub progress
{
	my ($node) = @_;
	my $request = Tide::held_request($node, 'drain', Tide::resize_sql('16MB'));
	my $progress = Tide::row($node, 'SELECT * FROM tidepool.progress');
	is_deeply(
		[ @{$progress}{qw(phase direction requested_bytes chunks_total chunks_done chunks_left)} ],
		[ 'drain', 'shrink', 16 * MB, 8, 0, 8 ],
		'progress');
	my $status = Tide::status($node);
	is($status->{state}, 'drain', 'status names the phase');
	is($status->{target_bytes}, 16 * MB, 'and the target');
	is($status->{committed_bytes}, 32 * MB, 'what is not released is committed');
	Tide::release($node);
	is($request->row->{state}, 'done', 'released');
	Whole::check($node, 'progress');
}

sub dry_run
{
	my ($node) = @_;
	my $before = Tide::status($node);
	my $outcome = Tide::resize($node, '48MB', dry_run => 'true');
	is_deeply(
		[ @{$outcome}{qw(state direction requested_bytes)} ],
		[ 'done', 'grow', 48 * MB ],
		'a dry run says what would happen') or diag explain $outcome;
	my $after = Tide::status($node);
	is($after->{$_}, $before->{$_}, "a dry run leaves $_")
	  for qw(allocatable_bytes committed_bytes);
	Whole::check($node, 'dry run');
}

sub persist_and_reload
{
	my ($node) = @_;
	Tide::resize($node, '40MB', persist => 'true');
	like(slurp_file($node->data_dir . '/postgresql.auto.conf'),
		qr/^tidepool\.size = '40MB'/m, 'persisted');
	$node->restart;
	is(Tide::status($node)->{allocatable_bytes}, 40 * MB, 'and in force after a restart');
	Whole::check($node, 'restart');

	Tide::value($node, q{ALTER SYSTEM SET tidepool.size = '24MB'});
	$node->reload;
	ok( Tide::until(
			'a reload applies', sub { Tide::status($node)->{allocatable_bytes} == 24 * MB }),
		'a reload applies a new size');
	my $last = Tide::row($node, 'SELECT * FROM tidepool.history ORDER BY operation DESC LIMIT 1');
	is($last->{source}, 'reload', 'the history says who asked');
	Whole::check($node, 'reload');

	my $operations = Tide::status($node)->{generation};
	$node->reload;
	Tide::value($node, 'SELECT pg_sleep(0.1)');
	is(Tide::status($node)->{generation}, $operations, 'a reload without a new size does nothing');

	is(Tide::resize($node, '100%')->{allocatable_bytes},
		64 * MB, 'a percentage of memory that is more than the ceiling means the ceiling');
	is(Tide::resize($node, '0.001 %')->{allocatable_bytes},
		16 * MB, 'one that is less than the floor means the floor');
	Tide::value($node, q{ALTER SYSTEM SET tidepool.size = '100%'});
	$node->reload;
	ok( Tide::until(
			'a percentage applies',
			sub { Tide::status($node)->{allocatable_bytes} == 64 * MB }),
		'a percentage may be reloaded');
	Whole::check($node, 'percentage');
}

# Sizes that are no whole chunks never overshoot.
sub rounding
{
	my ($node) = @_;
	Tide::resize($node, '64MB');
	is(Tide::resize($node, '33MB')->{allocatable_bytes}, 34 * MB, 'a shrink rounds up');
	is(Tide::resize($node, '45MB')->{allocatable_bytes}, 44 * MB, 'a grow rounds down');
	is(Tide::resize($node, '45000kB')->{direction}, 'none',
		'a size that rounds to the present one');
	Whole::check($node, 'rounding');
}

sub run
{
	my ($huge) = @_;
	my $node = Tide::new_node(name => "huge_pages_$huge", huge_pages => $huge);
	is(Tide::status($node)->{allocatable_bytes}, 64 * MB, 'without a size: the ceiling');
	Whole::check($node, 'start');
	shrink_and_grow($node);
	usable_at_once($node);
	views($node, $huge);
	progress($node);
	dry_run($node);
	rounding($node);
	persist_and_reload($node);
	$node->stop;
}

Tide::each_backing(80, sub { my ($huge) = @_; note "huge pages: $huge"; run($huge) });
done_testing();
