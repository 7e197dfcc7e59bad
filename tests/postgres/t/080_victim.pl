#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# A buffer that a backend has taken as victim and not filled yet has a pin and no page: it looks
# like a parked one. It must be neither parked nor given back.
#
# How it is brought about: the pool is full of pages, one more chunk is published, so that the only
# free buffers are in it. A session reads a page that is not in the pool, while another one holds
# the lock of that page's part of the lookup table: the reader has taken a free buffer, pinned it,
# and waits to enter the page. Cursors pin a page in every other chunk, so a shrink can only go for
# the chunk of the victim.
#
# What happens when the record of parked buffers is not consulted (park() in park.c returns DONE for
# any pinned buffer without a tag): the shrink ends as done, the chunk is given back, and the reader
# fills memory that is not the pool's any more: "the shrink does not succeed" fails, and after it
# every check of the victim's chunk.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Pins;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $serial = 0;

# Pages of the pool's size, and a page that is not in it after a restart.
sub prepare
{
	my ($node) = @_;
	Tide::fill($node, 'filler', 40);
	Tide::value(
		$node,
		q{CREATE TABLE wanted AS
			SELECT i AS id, repeat('y', 1000) AS filler FROM generate_series(1, 400) i}
	);
	Tide::value($node, 'VACUUM FREEZE wanted');
	Tide::value($node, 'CHECKPOINT');
}

# 34 MB, full; a page pinned in each of its chunks; then one chunk more, whose buffers are free.
sub one_free_chunk
{
	my ($node, $reader) = @_;
	$node->restart;
	# what the reader needs beside the page itself
	$$reader = $node->background_psql('postgres', on_error_stop => 0);
	$$reader->set_query_timer_restart;
	$$reader->query_safe(q{SELECT id FROM wanted WHERE ctid = '(0,1)'});

	my %warm = Pins::blocks_by_chunk($node, 'filler');
	for my $round (1 .. 20)
	{
		Tide::value($node, q{SELECT sum(id) FROM filler; SELECT pg_prewarm('filler')});
		%warm = Pins::blocks_by_chunk($node, 'filler');
		last if keys %warm == 17;
	}
	is(scalar keys %warm, 17, 'there is a page to pin in every chunk');
	my $pins = Pins::hold($node, 'filler', values %warm);
	is(Tide::value($node, 'SELECT count(*) FROM tidepool.chunks WHERE pinned > 0'),
		17, 'and it is pinned');
	is(Tide::resize($node, '36MB')->{state}, 'done', 'one chunk more');
	return $pins;
}

# A reader of a page that waits with its victim in hand.
sub victim
{
	my ($node, $reader, $block) = @_;
	my $file = "$folder/go" . ++$serial;
	my $holder = $node->background_psql('postgres', on_error_stop => 0);
	$holder->set_query_timer_restart;

	my ($pid) = $reader->query('SELECT pg_backend_pid()');
	$holder->{stdin} .= "SELECT tide_test.hold_partition('wanted', $block, '$file');\n";
	$holder->{run}->pump until $holder->{stderr} =~ /partition held/;
	$reader->{stdin} .= "SELECT id, length(filler) FROM wanted WHERE ctid = '($block,1)';\n";
	$reader->{run}->pump_nb;
	my $waits = <<"SQL";
SELECT count(*) FROM pg_stat_activity
 WHERE pid = $pid AND wait_event_type = 'LWLock' AND wait_event ~ '^[Bb]uffer_?[Mm]apping\$'
SQL
	ok( Tide::until(
			'the reader waits for the lookup table',
			sub { $reader->{run}->pump_nb; Tide::value($node, $waits) == 1 }),
		'the reader has a victim and waits');
	return { holder => $holder, reader => $reader, file => $file };
}

# It goes on, and reads what is on the page.
sub go_on
{
	my ($node, $victim, $block, $name) = @_;
	append_to_file($victim->{file}, '');
	$victim->{holder}->quit;
	my $id = $block * 7 + 1;
	my $answer = $victim->{reader}->query('SELECT 1 WHERE false');
	is($answer, "$id|1000", "$name: the page is read right");
}

sub taken_before
{
	my ($node, $method) = @_;
	my $reader;
	my $pins = one_free_chunk($node, \$reader);
	my $victim = victim($node, $reader, 3);
	my $facts = Tide::row(
		$node, q{SELECT chunk, pinned, parked FROM tidepool.chunks
		WHERE state = 'active' AND pinned > 0 AND valid < pinned + 200 ORDER BY valid LIMIT 1});
	is($facts->{pinned}, 1, "$method: the victim is in the new chunk");

	my $outcome = Tide::resize($node, '34MB', timeout => "'700ms'");
	is($outcome->{state}, 'partial', "$method: the shrink does not succeed")
	  or diag explain $outcome;
	is($outcome->{code}, 'PINNED_BUFFERS', "$method: because of the victim");
	is($outcome->{committed_bytes}, 36 * MB, "$method: nothing is given back");
	is(Tide::value($node, "SELECT state FROM tidepool.chunks WHERE chunk = $facts->{chunk}"),
		'active', "$method: its chunk is in use");
	go_on($node, $victim, 3, "$method, victim taken before");
	$reader->quit;
	Pins::release($pins);
	Whole::check($node, "$method: victim taken before");
}

# The same with a victim that was taken after the chunk was chosen, before its fence.
sub taken_meanwhile
{
	my ($node, $method) = @_;
	my $reader;
	my $pins = one_free_chunk($node, \$reader);
	my $request = Tide::held_request($node, 'fence', Tide::resize_sql('34MB', timeout => "'10s'"));
	my $victim = victim($node, $reader, 5);

	Tide::release($node);
	ok( Tide::until(
			'the shrink finds it in its way',
			sub { Tide::value($node, 'SELECT blocked_chunks FROM tidepool.progress') =~ /^[1-9]/ }),
		"$method: the shrink waits for the victim");
	is(Tide::status($node)->{committed_bytes}, 36 * MB, "$method: nothing is given back");
	go_on($node, $victim, 5, "$method, victim taken meanwhile");
	my $outcome = $request->row;
	is($outcome->{state}, 'done', "$method: then it succeeds") or diag explain $outcome;
	is($outcome->{committed_bytes}, 34 * MB, "$method: and gives the chunk back");
	is($reader->query(q{SELECT id, length(filler) FROM wanted WHERE ctid = '(5,1)'}),
		'36|1000', "$method: the page is read right again");
	$reader->quit;
	Pins::release($pins);
	Whole::check($node, "$method: victim taken meanwhile");
}

# Asynchronous: the process that reads stands still; only a pin that no backend owns holds the
# buffer.
sub read_in_flight
{
	my ($node) = @_;
	my $reader;
	my $pins = one_free_chunk($node, \$reader);
	my @workers = split /\n/,
	  Tide::value($node, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'io worker'});
	cmp_ok(scalar @workers, '>', 0, 'there are I/O workers');

	$reader->query_safe('SET maintenance_io_concurrency = 8');
	kill 'STOP', @workers;
	$reader->{stdin} .= "SELECT pg_prewarm('wanted', 'buffer', 'main', 20, 40);\n";
	$reader->{run}->pump_nb;
	ok( Tide::until(
			'a read is in flight',
			sub { Tide::value($node, 'SELECT count(*) FROM pg_aios') > 0 }),
		'a read is in flight');
	my $outcome = Tide::resize($node, '34MB', timeout => "'700ms'");
	is($outcome->{state}, 'partial', 'read in flight: the shrink does not succeed')
	  or diag explain $outcome;
	is($outcome->{committed_bytes}, 36 * MB, 'read in flight: nothing is given back');
	kill 'CONT', @workers;
	is($reader->query('SELECT 1 WHERE false'), 21, 'read in flight: it is read');
	is($reader->query('SELECT count(*), min(length(filler)) FROM wanted'),
		'400|1000', 'read in flight: and right');
	$reader->quit;
	Pins::release($pins);
	Whole::check($node, 'read in flight');
}

sub run
{
	my ($method, $conf) = @_;
	my $node = Tide::new_node(
		name => "victim_$method",
		ceiling => '40MB',
		size => '34MB',
		conf => "bgwriter_lru_maxpages = 0\n$conf",
		start => 0);
	if (!$node->start(fail_ok => 1))
	{
		my ($why) = slurp_file($node->logfile) =~ /(?:FATAL|ERROR): +(.*)/;
		skip "the server does not start with $method: $why", 1;
	}
	Tide::create_functions($node);
	prepare($node);
	taken_before($node, $method);
	taken_meanwhile($node, $method);
	read_in_flight($node) if $method eq 'worker';
	$node->stop;
}

if ($ENV{TIDE_SERVER} < 18)
{
	run('synchronous', '');
}
else
{
	for my $method (qw(sync worker io_uring))
	{
	  SKIP:
		{
			run($method, "io_method = $method\n" . ($method eq 'worker' ? "io_workers = 1\n" : ''));
		}
	}
}
done_testing();
