# SPDX-License-Identifier: PostgreSQL
#
# Operations that are held in a phase: for tests that interrupt them there.

package Phase;

use strict;
use warnings;

use Test::More;
use Tide;

use constant MB => 1024 * 1024;

# Every phase of both directions. In the early ones everything can still be taken back.
our @all = (
	map({ { direction => 'grow', point => $_, early => 1 } } qw(commit publish)),
	map({ { direction => 'grow', point => $_, early => 0 } } qw(verify undo)),
	map({ { direction => 'shrink', point => $_, early => 1 } } qw(fence drain flush quiesce)),
	map({ { direction => 'shrink', point => $_, early => 0 } } qw(release verify undo)));

use constant FROM => 32;
my %target = (grow => 56, shrink => 20);

sub target_bytes { return $target{ $_[0]{direction} } * MB }
sub from_bytes   { return FROM * MB }

sub name { return "$_[0]{direction} at $_[0]{point}" }

sub new_node
{
	my (%want) = @_;
	my $node = Tide::new_node(
		%want,
		size => FROM . 'MB',
		conf => "bgwriter_lru_maxpages = 0\n" . ($want{conf} // ''));
	Tide::fill($node, 'filled', 40);
	return $node;
}

# A pool of the first size, full of dirty pages.
sub prepare
{
	my ($node) = @_;
	set_size($node, FROM . 'MB');
	Tide::resize($node, FROM . 'MB');
	Tide::value($node, 'UPDATE filled SET id = id');
}

# Changes the setting, and waits until the server's processes have been told.
sub set_size
{
	my ($node, $size) = @_;
	my $session = Tide::session($node);
	return if $session->query('SHOW tidepool.size') eq $size;
	$session->query("ALTER SYSTEM SET tidepool.size = '$size'");
	$session->query('SELECT pg_reload_conf()');
	Tide::until("the setting is $size", sub { $session->query('SHOW tidepool.size') eq $size });
}

# How the operation is asked for: by a session, or by a reload.
sub request
{
	my ($node, $phase, $how, $prepare) = @_;
	my $size = $target{ $phase->{direction} } . 'MB';
	return Request->new($node, Tide::resize_sql($size), prepare => $prepare) if $how eq 'sql';
	set_size($node, $size);
	return undef;
}

# Brings an operation to the phase. An undo begins with a cancel.
sub hold
{
	my ($node, $phase, $how, $prepare) = @_;
	my %before_undo = (grow => 'publish', shrink => 'drain');
	my $undo = $phase->{point} eq 'undo';
	my $point = $undo ? $before_undo{ $phase->{direction} } : $phase->{point};

	Tide::arm($node, $point);
	my $request = request($node, $phase, $how, $prepare);
	return undef unless ok(Tide::reached($node), name($phase) . ': held');
	if ($undo)
	{
		Tide::session($node)->query('SELECT tidepool.cancel()');
		Tide::arm($node, 'undo');
		return undef unless ok(Tide::reached($node), name($phase) . ': held in the undo');
	}
	return $request // 1;
}

# Waits until nothing runs.
sub settle
{
	my ($node) = @_;
	return Tide::until(
		'nothing runs',
		sub {
			Tide::value($node, 'SELECT state FROM tidepool.status WHERE worker_pid IS NOT NULL') eq
			  'idle';
		});
}

sub last_operations
{
	my ($node, $count) = @_;
	my $rows =
	  Tide::value($node, "SELECT state FROM tidepool.history ORDER BY operation DESC LIMIT $count");
	return reverse split /\n/, $rows;
}

1;
