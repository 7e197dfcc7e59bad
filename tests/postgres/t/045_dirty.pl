#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Dirty pages in chunks that are given up: they are written and never dropped, also when they become
# dirty again meanwhile; a limit on writing holds; a write that fails is undone and can be repeated.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;
use constant ROWS => 40 * 128;

my $node = Tide::new_node(
	name => 'dirty',
	size => '48MB',
	conf => "bgwriter_lru_maxpages = 0\n");
Tide::fill($node, 'filled', 40);

# What must be read when every row was raised so many times.
sub expected
{
	my ($raised) = @_;
	return ROWS * (ROWS + 1) / 2 + $raised * ROWS;
}

sub raise_rows { Tide::value($node, 'UPDATE filled SET id = id + 1') }

sub set
{
	my ($setting) = @_;
	my ($name, $value) = $setting =~ /^(\S+) = '(.*)'$/;
	Tide::value($node, "ALTER SYSTEM SET $setting");
	$node->reload;
	ok(Tide::until("$setting is in force", sub { Tide::value($node, "SHOW $name") eq $value }),
		"$setting");
}

# Rows change while the worker has the first page in its hands and many noted to be written.
raise_rows();
my $request = Tide::held_request($node, 'flush', Tide::resize_sql('16MB', timeout => "'30s'"));
raise_rows();
Tide::release($node);
my $outcome = $request->row;
is($outcome->{state}, 'done', 'pages that become dirty again are drained') or diag explain $outcome;
cmp_ok($outcome->{written_pages}, '>=', 32 * 128 / 2, 'they were written');
is(Tide::value($node, 'SELECT sum(id) FROM filled'), expected(2), 'nothing is lost');
Whole::check($node, 'dirty again');

# A checkpoint relies on what is in the files: nothing older than it is replayed.
Tide::value($node, 'CHECKPOINT');
$node->stop('immediate');
my $crash = -s $node->logfile;
$node->start;
is(Tide::value($node, 'SELECT sum(id) FROM filled'), expected(2), 'nor in the files');
Tide::forget_session($node);

# Slower than the deadline allows.
raise_rows();
set(q{tidepool.flush_rate = '1MB'});
$outcome = Tide::resize($node, '16MB', timeout => "'1s'");
is($outcome->{state}, 'partial', 'with a limit on writing the deadline passes')
  or diag explain $outcome;
is($outcome->{code}, 'DIRTY_BACKLOG', 'because of the dirty pages');
cmp_ok($outcome->{written_pages}, '<', 4 * 128, 'the limit holds');
Whole::check($node, 'limited');
set(q{tidepool.flush_rate = '0'});

# A file that cannot be opened.
Tide::resize($node, '48MB');
raise_rows();
my $file = $node->data_dir . '/' . Tide::value($node, q{SELECT pg_relation_filepath('filled')});
chmod 0, $file or die "$file: $!\n";
$outcome = Tide::resize($node, '16MB');
is($outcome->{state}, 'failed', 'a page that cannot be written ends the resize')
  or diag explain $outcome;
is($outcome->{code}, 'HOST_ERROR', 'with its code');
like($outcome->{message}, qr/could not open file/, 'and the reason');
is($outcome->{allocatable_bytes} - $outcome->{committed_bytes},
	0, 'what is not given back is in use');
Whole::check($node, 'a write that failed');
chmod 0600, $file or die "$file: $!\n";
is(Tide::resize($node, '16MB')->{state}, 'done', 'the next one succeeds');
is(Tide::value($node, 'SELECT sum(id) FROM filled'), expected(4), 'nothing is lost');
Whole::check($node, 'written after all');

# Pages of a relation that is dropped need no writing.
Tide::resize($node, '48MB');
raise_rows();
Tide::value($node, 'CHECKPOINT');
raise_rows();
Tide::value($node, 'DROP TABLE filled');
$outcome = Tide::resize($node, '16MB');
is($outcome->{state}, 'done', 'a pool full of what was dropped shrinks');
cmp_ok($outcome->{written_pages}, '<', 128, 'and almost nothing is written');
Whole::check($node, 'dropped');
$node->stop;

done_testing();
