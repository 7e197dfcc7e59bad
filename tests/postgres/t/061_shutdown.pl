#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# A server that is told to stop, in every mode and in every phase of a resize. It stops, what ran
# has one outcome where there is time for one, and the next start has the size that is documented
# and a whole pool.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Kernel;
use Phase;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

my $node = Phase::new_node();

# Smart: the session that asked is waited for, and so is its resize. Fast: it is taken back.
# Immediate: there is no time for anything.
my %outcome = (smart => 'done|cancelled', fast => 'cancelled|done|partial', immediate => '');

sub stop_in
{
	my ($phase, $mode) = @_;
	my $name = Phase::name($phase) . ", $mode shutdown";

	Phase::prepare($node);
	my $offset = -s $node->logfile;
	my $request = Phase::hold($node, $phase, 'sql') // return;
	my $inode = Kernel::pool_inode(Tide::status($node)->{worker_pid});

	if ($mode eq 'smart')
	{
		system_or_bail('pg_ctl', '-D', $node->data_dir, '-m', $mode, '-W', 'stop');
		Tide::release($node);
	}
	Tide::forget_session($node);
	is($node->stop($mode, fail_ok => 1), 1, "$name: the server stops");
	$request->finish;

	my @outcomes = slurp_file($node->logfile, $offset) =~ /LOG:  resize (\w+):/g;
	is(scalar @outcomes, $mode eq 'immediate' ? 0 : 1, "$name: one outcome, @outcomes");
	like($outcomes[0], qr/^($outcome{$mode})$/, "$name: outcome") if $mode ne 'immediate';
	is(join(' ', Kernel::holders($inode)), '', "$name: nobody keeps the memory");

	my $crash = -s $node->logfile;
	$node->start;
	is(Tide::status($node)->{allocatable_bytes},
		Phase::from_bytes(), "$name: the size is tidepool.size");
	is(Tide::value($node, 'SELECT count(*) FROM filled'), 40 * 128, "$name: the data are there");
	Whole::check($node, $name, crashed_at => $crash);
}

# The longest stays of an operation are held in any case; the others in the long run.
my %short = map { $_ => 1 } qw(commit publish drain flush release);
for my $phase (@Phase::all)
{
	next unless Tide::long_run() || $short{ $phase->{point} };
	stop_in($phase, $_) for qw(smart fast immediate);
}
Tide::forget_session($node);
$node->stop;

done_testing();
