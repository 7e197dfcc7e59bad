#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# A hot standby is resized while it replays, and is promoted.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Load;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Time::HiRes qw(sleep);
use Whole;

use constant MB => 1024 * 1024;

my $huge = Tide::no_huge_pages(224) ? 'off' : 'on';
my $primary =
  Load::new_node(name => 'primary', huge_pages => $huge, init => { allows_streaming => 1 });
$primary->backup('base');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
is(Tide::value($standby, 'SELECT pg_is_in_recovery()'), 't', 'the standby replays');
is(Tide::status($standby)->{allocatable_bytes}, 48 * MB, 'with the size that is configured');

my $load = Load::start($primary, 8, Tide::seconds(10, 60));
my %count;
while (Load::running($load))
{
	$count{ Tide::resize($standby, Load::random_size($standby), timeout => "'20s'")->{state} }++;
	Tide::resize($primary, Load::random_size($primary), timeout => "'20s'");
	sleep 0.2;
}
my ($code, $said) = Load::finish($load);
is($code, 0, 'no client failed') or diag($said);
cmp_ok($count{done} // 0, '>=', 5, 'resizes were completed while it replayed');
my @wrong = grep { !/^(done|partial)$/ } keys %count;
is("@wrong", '', 'every resize ended as done or partial');

$primary->wait_for_catchup($standby);
Load::balanced($standby, 'standby');
my $digest = <<'SQL';
SELECT count(*), sum(delta), md5(string_agg(tid::text, ',' ORDER BY mtime, tid))
  FROM pgbench_history
SQL
is( Tide::value($standby, $digest),
	Tide::value($primary, $digest),
	'the standby has what the primary has');
Whole::check($standby, 'standby');
Whole::check($primary, 'primary');

Tide::resize($standby, '32MB', persist => 'true');
$standby->promote;
Load::indexes_whole($standby, 'promoted');
Tide::value($standby, 'UPDATE pgbench_accounts SET filler = filler WHERE aid <= 20000');
is(Tide::resize($standby, '80MB')->{state}, 'done', 'promoted, it grows');
is(Tide::resize($standby, Tide::status($standby)->{min_bytes})->{state}, 'done', 'and shrinks');
Whole::check($standby, 'promoted');
$standby->restart;
is(Tide::status($standby)->{allocatable_bytes},
	32 * MB, 'what was persisted on the standby is in force');

$_->stop for $standby, $primary;
Load::checksums_right($_, $_->name) for $standby, $primary;
done_testing();
