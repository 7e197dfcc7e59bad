#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Memory that cannot be had: at every call with which a grow obtains memory, by limits of control
# groups (played), and, where few enough huge pages are left on this machine, by taking the rest of
# them away while a grow is held. The old size stays, what was obtained on the way is given back,
# the reason is right, and the server runs on.

use strict;
use warnings;

use Errno qw(EFAULT ENOMEM);
use FindBin;
use File::Path qw(make_path);
use lib "$FindBin::RealBin/../lib";
use Kernel;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

# Huge pages that the test takes away from others for a moment, at most.
use constant EATEN_MB => 512;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $round = 0;

sub unchanged
{
	my ($node, $name, $bytes) = @_;
	my $status = Tide::status($node);
	is($status->{allocatable_bytes}, $bytes, "$name: the old size stays");
	is($status->{committed_bytes}, $bytes, "$name: everything is given back");
	is(Kernel::backed_bytes($status->{worker_pid}) - $status->{metadata_bytes},
		$bytes, "$name: the kernel says so too");
}

# Memory that a failed grow leaves behind is found by the worker when it is idle; none must be.
sub nothing_left_behind
{
	my ($node) = @_;
	my ($found) = slurp_file($node->logfile) =~ /^(.*read of retired buffers.*)$/m;
	is($found, undef, 'nothing was left behind');
}

# From the n-th call on there is no memory. 0 = there is.
sub shortage
{
	my ($nth, $errno) = @_;
	$round++;
	open my $fh, '>', "$folder/next" or die "$folder: $!\n";
	print $fh "$round $nth $errno\n" if $nth;
	close $fh;
	rename "$folder/next", "$folder/shortage" or die "$folder: $!\n";
}

# n = 1, 2, 3, ... until it passes: every call of the way fails once.
sub every_call
{
	my ($huge) = @_;
	my ($errno, $code) =
	  $huge eq 'on' ? (EFAULT, 'HUGEPAGES_SHORT') : (ENOMEM, 'NOT_ENOUGH_MEMORY');
	my $library = Tide::build('shortage');
	my $node =
	  Tide::new_node(name => "every_call_$huge", huge_pages => $huge, start => 0, size => '20MB');
	{
		local $ENV{LD_PRELOAD} = $library;
		local $ENV{TIDE_SHORTAGE} = "$folder/shortage";
		$node->start;
	}
	Tide::create_functions($node);

	my ($nth, $outcome) = (0);
	while (++$nth < 100)
	{
		shortage($nth, $errno);
		$outcome = Tide::resize($node, '64MB');
		last if $outcome->{state} eq 'done';
		is($outcome->{state}, 'failed', "call $nth fails: state") or diag explain $outcome;
		is($outcome->{code}, $code, "call $nth fails: code");
		isnt($outcome->{message}, undef, "call $nth fails: message");
		unchanged($node, "call $nth fails", 20 * MB);
		Whole::check($node, "call $nth fails");
	}
	cmp_ok($nth, '>', 3, "a grow obtains memory with several calls: $nth");
	is($outcome->{allocatable_bytes}, 64 * MB, 'and passes when all of them do');

	# What is acceptable is kept: the first slice, which is one chunk.
	Tide::resize($node, '20MB');
	shortage(2, $errno);
	$outcome = Tide::resize($node, '64MB', min_acceptable => q{'22MB'});
	is($outcome->{state}, 'partial', 'with a size that is acceptable it ends partial')
	  or diag explain $outcome;
	is($outcome->{code}, $code, 'with the reason');
	cmp_ok($outcome->{allocatable_bytes}, '>=', 22 * MB, 'and at least that size');
	cmp_ok($outcome->{allocatable_bytes}, '<', 64 * MB, 'not the whole');
	Whole::check($node, 'partial');

	# Shrinking needs no memory.
	shortage(1, $errno);
	is(Tide::resize($node, '16MB')->{state}, 'done', 'a shrink needs no memory');
	shortage(0);
	is(Tide::resize($node, '64MB')->{state}, 'done', 'and then there is memory again');
	Whole::check($node, 'memory again');
	nothing_left_behind($node);
	$node->stop;
}

# A cgroup tree that we made up, with every group that a process of ours is in.
sub played_tree
{
	my ($name, %files) = @_;
	my $root = "$folder/$name";

	for my $line (split /\n/, slurp_file('/proc/self/cgroup'))
	{
		my ($controller, $path) = $line =~ /^\d+:([^:]*):(.*)$/ or next;
		make_path("$root/$controller$path", "$root/unified$path");
	}
	make_path("$root/unified");
	limit("$root/unified", %files);
	return "$root/unified";
}

sub limit
{
	my ($group, %files) = @_;
	for my $file (keys %files)
	{
		open my $fh, '>', "$group/$file" or die "$group/$file: $!\n";
		print $fh "$files{$file}\n";
		close $fh;
	}
}

# The limit is in the way at preflight: denied before anything is touched.
sub denied
{
	my ($node, $name, $code, $short_mb) = @_;
	my $outcome = Tide::resize($node, '64MB');
	is($outcome->{state}, 'denied', "$name: denied") or diag explain $outcome;
	is($outcome->{code}, $code, "$name: code");
	like($outcome->{message}, qr/44 ?Mi?B/, "$name: what is needed");
	like($outcome->{message}, qr/leaves $short_mb ?Mi?B/, "$name: what there is");
	unchanged($node, $name, 20 * MB);
}

sub memory_limit
{
	my $group = played_tree('memory', 'memory.max' => 200 * MB, 'memory.current' => 190 * MB);
	my $node = Tide::new_node(
		name => 'memory_limit',
		size => '20MB',
		conf => "tidepool.cgroup_root = '$folder/memory'\n");
	denied($node, 'memory limit', 'NOT_ENOUGH_MEMORY', 10);
	my ($hint) = slurp_file($node->logfile) =~ /HINT: +(.*)/;
	like($hint, qr/raise that limit by 34 ?Mi?B/, 'and what to do');

	limit($group, 'memory.max' => 'max');
	is(Tide::resize($node, '64MB')->{state}, 'done', 'without the limit it passes');
	is(Tide::resize($node, '20MB')->{state}, 'done', 'a shrink is possible');

	# A limit below what is used already: shrinking is the way out of it.
	limit($group, 'memory.max' => 100 * MB);
	is(Tide::resize($node, '16MB')->{state}, 'done', 'also with a limit below use');
	is(Tide::resize($node, '18MB')->{state}, 'denied', 'and growing is not');
	limit($group, 'memory.max' => 200 * MB, 'memory.current' => 100 * MB);
	is(Tide::resize($node, '50%')->{allocatable_bytes}, 64 * MB,
		'a percentage is one of the limit');
	Whole::check($node, 'memory limit');
	$node->stop;
}

sub hugetlb_limit
{
	my $name = 'hugetlb';
	my $group =
	  played_tree($name, 'hugetlb.2MB.max' => 1024 * MB, 'hugetlb.2MB.current' => 24 * MB);
	my $node = Tide::new_node(
		name => 'hugetlb_limit',
		size => '20MB',
		huge_pages => 'on',
		conf => "tidepool.cgroup_root = '$folder/$name'\n");

	limit($group, 'hugetlb.2MB.max' => 30 * MB);
	denied($node, 'hugetlb limit', 'HUGEPAGE_CGROUP_LIMIT', 6);
	limit($group, 'hugetlb.2MB.max' => 0);
	is(Tide::resize($node, '64MB')->{code},
		'HUGEPAGE_CGROUP_LIMIT', 'a limit of zero under a running server');
	is(Tide::resize($node, '16MB')->{state}, 'done', 'which can shrink');
	is(Tide::resize($node, '20MB')->{state}, 'denied', 'and cannot grow');
	limit(
		$group,
		'hugetlb.2MB.max' => 'max',
		'hugetlb.2MB.rsvd.max' => 40 * MB,
		'hugetlb.2MB.rsvd.current' => 30 * MB);
	is(Tide::resize($node, '64MB')->{code}, 'HUGEPAGE_CGROUP_LIMIT', 'a limit on reservations');
	limit($group, 'hugetlb.2MB.rsvd.max' => 'max');
	is(Tide::resize($node, '64MB')->{state}, 'done', 'without limits it passes');
	Whole::check($node, 'hugetlb limit');
	$node->stop;
}

# Takes huge pages until none is left, then gives back so many MB; the rest goes with the process.
sub eat
{
	my ($leave_mb) = @_;
	my $program = Tide::build_program('eater');
	my $pid = open(my $said, '-|', $program, EATEN_MB, $leave_mb) // die "$program: $!\n";
	return { pid => $pid, said => $said, line => scalar <$said> };
}

sub spit_out
{
	my ($eater) = @_;
	kill 'TERM', $eater->{pid};
	close $eater->{said};
}

# Others take the pages between the preflight and the commit: those of the machine, or those that a
# real limit of the control group leaves.
sub real_shortage
{
	my $node = Tide::new_node(name => 'real_shortage', size => '20MB', huge_pages => 'on');
	my $code = defined Tide::huge_limit_bytes() ? 'HUGEPAGE_CGROUP_LIMIT' : 'HUGEPAGES_SHORT';
	for my $left (0, 2, 12, 30)
	{
		my $request = Tide::held_request($node, 'commit', Tide::resize_sql('64MB'));
		my $eater = eat($left);
		like($eater->{line}, qr/^ate/, "$left MB are left");
		Tide::release($node);
		my $outcome = $request->row;
		spit_out($eater);
		is($outcome->{state}, 'failed', "$left MB left: state") or diag explain $outcome;
		is($outcome->{code}, $code, "$left MB left: code");
		unchanged($node, "$left MB left", 20 * MB);
		Whole::check($node, "$left MB left");
	}
	is(Tide::resize($node, '64MB')->{state}, 'done', 'and then there are pages again');
	nothing_left_behind($node);
	$node->stop;
}

Tide::each_backing(80, \&every_call);
memory_limit();
SKIP:
{
	my $why = Tide::no_huge_pages(80);
	skip $why, 1 if $why;
	hugetlb_limit();
	my $room = Tide::huge_bytes() / MB;
	skip "$room MB of huge pages can be had on this machine, the test takes no more than "
	  . EATEN_MB, 1
	  if $room > EATEN_MB;
	real_shortage();
}
done_testing();
