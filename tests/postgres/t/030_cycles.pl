#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# A thousand random resizes: after each one the kernel backs exactly what is expected; after the
# last one everything is as it was before the first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Kernel;
use List::Util qw(max);
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;
use constant CYCLES => 1000;
use constant CEILING => 96;

my $seed = $ENV{TIDE_TEST_SEED} // time;
srand $seed;
note "TIDE_TEST_SEED=$seed";

# Everything that must be again what it was.
sub picture
{
	my ($node, $pid) = @_;
	my $status = Tide::status($node);
	delete @{$status}
	  {qw(generation last_state last_code last_message returned_pool_bytes returned_os_bytes)};
	return {
		status => $status,
		buffers => Tide::row(
			$node, 'SELECT sum(parked) AS parked, sum(pinned) AS pinned FROM tidepool.chunks'),
		backed => Kernel::backed_bytes($pid),
		mappings => Kernel::mappings($pid),
	};
}

# Sizes in kB: anywhere, or a buffer or a chunk from the present one.
sub next_size
{
	my ($min, $max, $now) = @_;
	my $kind = rand;
	my $size =
		$kind < 0.7 ? $min + int rand($max - $min + 1)
	  : $kind < 0.8 ? $now + 8
	  : $kind < 0.9 ? $now - 8
	  : $now + (rand() < 0.5 ? 2048 : -2048);
	return $size < $min ? $min : $size > $max ? $max : $size;
}

# What a request for so many kB comes to: never beyond it.
sub expected
{
	my ($wanted, $now) = @_;
	my $down = int($wanted / 2048) * 2048;
	my $up = $down + ($wanted % 2048 ? 2048 : 0);
	return $down > $now ? $down : $up < $now ? $up : $now;
}

sub run
{
	my ($huge) = @_;
	my $node =
	  Tide::new_node(name => "cycles_$huge", huge_pages => $huge, ceiling => CEILING . 'MB');
	my $session = Tide::session($node);
	my $status = Tide::status($node);
	my $pid = $status->{worker_pid};
	my ($min, $max) = ($status->{min_bytes} / 1024, $status->{max_bytes} / 1024);
	my $now = $max;
	my @wrong;

	Tide::fill($node, 'filled', CEILING);
	Tide::resize($node, '48MB');
	my $first = picture($node, $pid);
	$now = 48 * 1024;

	for my $cycle (1 .. CYCLES)
	{
		$session->query("SELECT pg_prewarm('filled')") if $cycle % 100 == 1;
		$session->query('UPDATE filled SET id = id WHERE id % 64 = 0') if $cycle % 100 == 51;
		my $wanted = $cycle == CYCLES ? 48 * 1024 : next_size($min, $max, $now);
		my $state = $session->query("SELECT state FROM tidepool.resize('${wanted}kB')");
		$now = expected($wanted, $now);
		my $backed = (Kernel::backed_bytes($pid) - $status->{metadata_bytes}) / 1024;
		push @wrong, "cycle $cycle: $state at ${wanted} kB, $backed kB backed, $now kB expected"
		  if $state ne 'done' || $backed != $now;
	}
	is(join("\n", splice @wrong, 0, 5),
		'', 'after each of ' . CYCLES . ' resizes the kernel backs what it should');
	is_deeply(picture($node, $pid), $first, 'after the last everything is as before the first');
	Whole::check($node, 'cycles');
	Tide::forget_session($node);
	$node->stop;
}

Tide::each_backing(CEILING + 16, \&run);
done_testing();
