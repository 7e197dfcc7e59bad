#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# TPC-B with 8 and with 64 clients while the pool is resized every second: no transaction fails, no
# money is lost, every checksum and every index is right.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Load;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Time::HiRes qw(sleep);
use Whole;

sub run
{
	my ($node, $clients, $seconds) = @_;
	my $name = "$clients clients";
	my $load = Load::start($node, $clients, $seconds);
	my %count;

	while (Load::running($load))
	{
		my $size = Load::random_size($node);
		$count{ Tide::resize($node, $size, timeout => "'20s'")->{state} }++;
		sleep 1;
	}
	my ($code, $said) = Load::finish($load);
	is($code, 0, "$name: no client failed") or diag($said);
	like($said, qr/number of failed transactions: 0 /, "$name: no transaction failed");
	note($said);
	cmp_ok($count{done} // 0, '>=', 3, "$name: resizes were completed meanwhile");
	my @wrong = grep { !/^(done|partial)$/ } keys %count;
	is("@wrong", '', "$name: every resize ended as done or partial");
	Load::balanced($node, $name);
	Load::indexes_whole($node, $name);
	Whole::check($node, $name);
}

my $seconds = Tide::seconds(10, 60);
my $huge = Tide::no_huge_pages(112) ? 'off' : 'on';
my $node = Load::new_node(name => 'bank', huge_pages => $huge);
run($node, 8, $seconds);
run($node, 64, $seconds);
Tide::value($node, 'CHECKPOINT');
$node->stop;
Load::checksums_right($node, 'after the load');
done_testing();
