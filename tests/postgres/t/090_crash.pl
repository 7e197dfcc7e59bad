#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# TPC-B and random resizes, and at a random moment a backend, the resize worker or the postmaster is
# killed. Recovery is ordinary, the size is the one that is configured, no memory is left with
# anybody, and no money is lost.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use IPC::Run;
use Kernel;
use Load;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Time::HiRes qw(sleep);
use Whole;

use constant MB => 1024 * 1024;
use constant SIZE => 48;

my $seed = $ENV{TIDE_TEST_SEED} // time;
srand $seed;
note "TIDE_TEST_SEED=$seed";

my $huge = Tide::no_huge_pages(112) ? 'off' : 'on';
my $node =
  Load::new_node(name => 'crash', huge_pages => $huge, conf => "log_min_messages = warning\n");

# A session that resizes without a break until the server goes.
sub resizer
{
	my $sql = join '',
	  map { "SELECT state FROM tidepool.resize('" . Load::random_size($node) . "');\n" } 1 .. 2000;
	my $self = { in => $sql, out => '' };
	$self->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-f', '-' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{out});
	return $self;
}

sub victim
{
	my ($whom) = @_;
	return slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/ ? $1 : undef
	  if $whom eq 'postmaster';
	return Tide::status($node)->{worker_pid} if $whom eq 'worker';
	return Tide::value(
		$node, q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND query ~ 'pgbench_' AND pid <> pg_backend_pid()
		ORDER BY random() LIMIT 1}
	);
}

# Serves again, with a worker.
sub back
{
	my $sql = 'SELECT worker_pid IS NOT NULL FROM tidepool.status';
	return Tide::until(
		'the server is back',
		sub {
			# a psql that is not let in may be gone before it is told what to ask
			my ($code, $out) = eval { $node->psql('postgres', $sql) };
			return defined $code && $code == 0 && $out eq 't';
		});
}

sub restart_after
{
	my ($whom) = @_;
	if ($whom eq 'postmaster')
	{
		ok( Tide::until(
				'the children of the dead server are gone',
				sub { $node->{_pid} = undef; $node->start(fail_ok => 1) }),
			'started again at once');
	}
	return back();
}

sub kill_one
{
	my ($whom, $round) = @_;
	my $name = "$whom killed, $round";
	my $load = Load::start($node, 4, 60);
	my $resizer = resizer();

	$resizer->{run}->pump until $resizer->{out} =~ /done/;
	my $pid;
	Tide::until("there is a $whom", sub { ($pid = victim($whom)) =~ /\d/ });
	sleep rand 0.7;
	my $inode = Kernel::pool_inode($pid);
	kill 'KILL', $pid;
	eval { Load::finish($load) };
	eval { $resizer->{run}->finish };
	ok(restart_after($whom), "$name: the server recovers");

	my $crash = -s $node->logfile;
	is(Tide::status($node)->{allocatable_bytes}, SIZE * MB,
		"$name: the size is the configured one");
	if ($whom eq 'postmaster')
	{
		ok(Tide::until('the old memory is free', sub { !Kernel::holders($inode) }),
			"$name: nobody has memory of the dead server");
	}
	Load::balanced($node, $name);
	Whole::check($node, $name, crashed_at => $crash);
}

my $rounds = Tide::long_run() ? 20 : 3;
for my $round (1 .. $rounds)
{
	kill_one($_, $round) for qw(backend worker postmaster);
}
Load::indexes_whole($node, 'after the crashes');
my $log = slurp_file($node->logfile);
unlike(
	$log,
	qr/PANIC|signal 7\b|signal 11\b|signal 6\b|TRAP:/,
	'no other crash than those that were asked for');
my $inode = Kernel::pool_inode(Tide::status($node)->{worker_pid});
$node->stop;
is(join(' ', Kernel::holders($inode)), '', 'nobody has memory of the server');
Load::checksums_right($node, 'after the crashes');
done_testing();
