#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# A resize that is interrupted, in every phase of both directions: afterwards the pool is whole, has
# the size that it should have, and the operation has one outcome in the log.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Phase;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

my $node = Phase::new_node();
my $session = Tide::session($node);

sub gone
{
	my ($pid) = @_;
	return Tide::until("$pid is gone",
		sub { $session->query("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' });
}

# An operation that was asked to stop: taken back, or too late. What a shrink has released stays so.
# An undo that does not get on for a second, because it is held, is given up: partial.
sub cancelled
{
	my ($phase, $what) = @_;
	my $name = Phase::name($phase) . ", $what";
	my $states =
		$phase->{early}           ? 'cancelled'
	  : $phase->{point} eq 'undo' ? 'cancelled|partial'
	  :                             'cancelled|done';

	ok(Phase::settle($node), "$name: it ends");
	my ($state) = Phase::last_operations($node, 1);
	my $bytes = Tide::status($node)->{allocatable_bytes};
	like($state, qr/^($states)$/, "$name: outcome");
	if ($phase->{point} eq 'release' || $state eq 'partial')
	{
		my ($low, $high) = sort { $a <=> $b } Phase::target_bytes($phase), Phase::from_bytes();
		ok($bytes >= $low && $bytes <= $high, "$name: size, $bytes");
	}
	else
	{
		is($bytes, $state eq 'done' ? Phase::target_bytes($phase) : Phase::from_bytes(),
			"$name: size");
	}
	Whole::check($node, $name);
}

sub cancel_backend
{
	my ($phase, $request) = @_;
	$session->query('SELECT pg_cancel_backend(' . $request->backend_pid . ')');
	is($request->row->{sqlstate}, '57014', 'the query is cancelled');
	Tide::release($node);
}

sub cancel_function
{
	my ($phase, $request) = @_;
	is($session->query('SELECT tidepool.cancel()'), 't', 'there is something to cancel');
	Tide::release($node);
	like($request->row->{state}, qr/^(cancelled|done|partial)$/, 'the session learns the outcome');
}

sub statement_timeout
{
	my ($phase, $request) = @_;
	is($request->row->{sqlstate}, '57014', 'the statement times out');
	Tide::release($node);
}

sub client_gone
{
	my ($phase, $request) = @_;
	$request->kill_client;
	ok(gone($request->backend_pid), 'the backend notices that its client has gone');
	Tide::release($node);
}

sub backend_terminated
{
	my ($phase, $request) = @_;
	$session->query('SELECT pg_terminate_backend(' . $request->backend_pid . ')');
	ok(gone($request->backend_pid), 'the backend ends');
	Tide::release($node);
}

sub worker_cancelled
{
	my ($phase, $request) = @_;
	$session->query('SELECT pg_cancel_backend(worker_pid) FROM tidepool.status');
	Tide::release($node);
	like($request->row->{state}, qr/^(cancelled|done|partial)$/, 'the session learns the outcome');
}

# It leaves the pause by itself: it has to be able to stop at any moment.
sub worker_terminated
{
	my ($phase, $request) = @_;
	my $pid = $session->query('SELECT worker_pid FROM tidepool.status');
	$session->query("SELECT pg_terminate_backend($pid)");
	like($request->row->{state}, qr/^(cancelled|done|partial)$/, 'the session learns the outcome');
	Tide::release($node);
	ok( Tide::until(
			'there is a worker again',
			sub { $session->query("SELECT worker_pid <> $pid FROM tidepool.status") eq 't' }),
		'the worker comes back');
}

# A newer wish takes the place of the running operation.
sub superseded
{
	my ($phase, $what, $size) = @_;
	my $name = Phase::name($phase) . ", $what";

	Tide::release($node);
	ok( Tide::until(
			"$name: the new size is reached",
			sub {
				$session->query('SELECT allocatable_bytes FROM tidepool.status') == $size * MB
				  && $session->query('SELECT state FROM tidepool.status') eq 'idle';
			}),
		"$name: the new size");
	my ($first, $second) = Phase::last_operations($node, 2);
	my $late = $phase->{early} ? 'superseded' : '(superseded|cancelled|done|partial)';
	like($first, qr/^$late$/, "$name: outcome of the first");
	is($second, 'done', "$name: outcome of the second");
	Whole::check($node, $name);
}

# In the short run all of them at two phases, and at the others those that leave by different ways.
my %busy = (publish => 1, drain => 1);
my %short = map { $_ => 1 } 'query cancelled', 'worker terminated';
my @interrupts = (
	[ 'query cancelled', \&cancel_backend ],
	[ 'tidepool.cancel()', \&cancel_function ],
	[ 'statement timeout', \&statement_timeout, "SET statement_timeout = '700ms'" ],
	[ 'client gone', \&client_gone ],
	[ 'backend terminated', \&backend_terminated ],
	[ 'worker cancelled', \&worker_cancelled ],
	[ 'worker terminated', \&worker_terminated ]);

for my $phase (@Phase::all)
{
	for my $interrupt (@interrupts)
	{
		my ($what, $sub, $prepare) = @$interrupt;
		next unless Tide::long_run() || $busy{ $phase->{point} } || $short{$what};
		Phase::prepare($node);
		my $request = Phase::hold($node, $phase, 'sql', $prepare) // next;
		$sub->($phase, $request);
		cancelled($phase, $what);
	}

	# Who asked is told that it was superseded, not that it succeeded.
	Phase::prepare($node);
	my $request = Phase::hold($node, $phase, 'sql') // next;
	Phase::set_size($node, '40MB');
	superseded($phase, 'reload with a new size', 40);
	my $late = $phase->{early} ? 'superseded' : '(superseded|cancelled|done)';
	like($request->row->{state}, qr/^$late$/, 'the session learns the outcome');

	Phase::prepare($node);
	Phase::hold($node, $phase, 'reload') // next;
	Phase::set_size($node, Phase::FROM . 'MB');
	superseded($phase, 'the opposite request', Phase::FROM) unless $phase->{point} eq 'undo';
	if ($phase->{point} eq 'undo')
	{
		Tide::release($node);
		Phase::settle($node);
		is(Tide::status($node)->{allocatable_bytes}, Phase::from_bytes(),
			'the opposite of an undo');
		Whole::check($node, Phase::name($phase) . ', the opposite request');
	}
}
Tide::forget_session($node);
$node->stop;

done_testing();
