#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# The tool tidestress itself: bad usage is refused, short runs of each kind pass, what it writes is
# JSON, and nothing is left over, also when it is interrupted.

use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep);

my $build      = $ENV{BUILD} // 'build';
my $tidestress = $ENV{TIDESTRESS} // "$FindBin::RealBin/../../$build/bin/tidestress";
my $work       = tempdir('tidestress-test.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $begin      = 3;    # seconds in which a run has surely begun, or there is something wrong

if (!-x $tidestress)
{
	print "$tidestress is not built\n";
	exit 77;
}
$ENV{TMPDIR} = "$work/tmp";
mkdir $ENV{TMPDIR};

sub slurp
{
	my ($file) = @_;
	open my $fh, '<', $file or return '';
	local $/;
	return <$fh> // '';
}

# Starts it with its output in two files.
sub start
{
	my @options = @_;
	my $pid = fork // die "fork: $!\n";
	return $pid if $pid;
	open STDOUT, '>', "$work/out" or die "$work/out: $!\n";
	open STDERR, '>', "$work/err" or die "$work/err: $!\n";
	exec $tidestress, @options or die "$tidestress: $!\n";
}

# Exit code, standard output, standard error; a signal is its number and 128.
sub finish
{
	my ($pid) = @_;
	waitpid $pid, 0;
	my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
	return ($code, slurp("$work/out"), slurp("$work/err"));
}

sub run
{
	return finish(start(@_));
}

sub refused
{
	my ($words, @options) = @_;
	my ($code, $out, $err) = run(@options);
	is($code, 2, "@options: bad usage");
	like($err, qr/\Q$words\E/, "@options: says why");
}

# A run that must pass; returns its JSON and what it printed.
sub passes
{
	my ($name, @options) = @_;
	my ($code, $out, $err) = run(@options, '--json', "$work/result.json");
	is($code, 0, "$name passes") or diag($err);
	my $json = eval { decode_json(slurp("$work/result.json")) } // {};
	ok($json->{passed} && !@{ $json->{findings} }, "$name: the JSON says so");
	return ($json, $out . $err);
}

sub left_over
{
	opendir my $dir, $ENV{TMPDIR} or die "$ENV{TMPDIR}: $!\n";
	return join ' ', grep { !/^\.\.?$/ } readdir $dir;
}

sub test_usage
{
	my ($code, $out) = run('--help');
	is($code, 0, 'help');
	like($out, qr/^usage: tidestress/, 'help says how');

	refused('unknown option', '--nonsense');
	refused('unknown option', '--threads');
	refused('no arguments', 'argument');
	my %bad = (
		'threads'         => [ '0', 'x', '257', '-1', '1.5' ],
		'processes'       => ['0'],
		'page-size'       => [ '5000', '2kB', '128kB' ],
		'max'             => [ '-1', '12XB', '0', 'inf', '0x10' ],
		'pages'           => ['0'],
		'files'           => ['0'],
		'distribution'    => ['round'],
		'skew'            => [ '0', '6', 'nan' ],
		'write-ratio'     => [ '1.5', '-1' ],
		'modes'           => [ 'pin', 'fly=1', 'pin=-1' ],
		'resize-interval' => ['soon'],
		'resize-min'      => ['0'],
		'resize-max'      => ['101'],
		'faults'          => ['200000'],
		'storage'         => ['tape'],
		'huge'            => ['maybe'],
		'duration'        => [ '0', '5d' ],
		'resizer'         => ['nobody'],
		'kill-interval'   => ['1e400'],
		'seed'            => [ '-1', '18446744073709551616' ],
	);
	for my $option (sort keys %bad)
	{
		refused("--$option cannot be $_", "--$option", $_) for @{ $bad{$option} };
	}
	refused('--start is more', qw(--max 1MB --start 2MB));
	refused('fewer than 16', qw(--max 64kB));
	refused('--resize-min is more', qw(--resize-min 50 --resize-max 40));
	refused('nothing to read', qw(--modes write=1));
	refused('nothing to write', qw(--modes read=1));
	refused('nobody to use', qw(--threads 1 --processes 1 --resizer thread));
	refused('1024', qw(--threads 200 --processes 200));
	refused('4,194,304', qw(--files 1024 --pages 5000));
}

sub test_storm
{
	my ($json) = passes(
		'five seconds of everything',
		qw(--duration 5s --seed 1 --max 16MB --faults 500 --kill-interval 300ms),
		qw(--stop-interval 700ms --validate-every 1s --resize-interval 30ms));
	my $torments = $json->{torments};
	is($json->{seed}, 1, 'the seed');
	cmp_ok($json->{counts}{$_}, '>', 0, "there were $_")
	  for qw(pins reads writes news verified flushes drops);
	cmp_ok($torments->{$_}, '>', 0, "there were $_") for qw(kills resizer_kills stops checks);
	cmp_ok($json->{resizes}{done}, '>', 0, 'there were resizes');
	cmp_ok($json->{faults}{eio} + $json->{faults}{delay}, '>', 0, 'there were faults');
	is(left_over(), '', 'no folder is left');
}

sub test_kinds
{
	my $still = '--resize-interval 0 --kill-interval 0 --stop-interval 0 --drop-interval 0';
	my ($json, $printed) = passes('a quiet run in memory',
		qw(--duration 1s --seed 2 --storage memory --max 16MB --quiet), split(/ /, $still));
	is($printed, '', 'it prints nothing');
	is($json->{counts}{fell_back}, 0, 'nothing falls back when nobody dies');
	passes('a run of readers',
		qw(--duration 1s --seed 3 --storage memory --max 16MB --write-ratio 0),
		'--modes', 'pin=1,read=1',
		qw(--distribution uniform --sample 8));
	passes('a run whose resizer is a thread',
		qw(--duration 1s --seed 9 --max 16MB --processes 1 --threads 3 --resizer thread));
	passes('a pool of a few pages', qw(--duration 1s --seed 10 --storage memory --max 128kB --threads 2));
	passes('a run with large pages of one file',
		qw(--duration 1s --seed 4 --page-size 64kB --files 1 --max 32MB --distribution scan));
}

sub test_output
{
	my ($code, $out, $err) =
	  run(qw(--duration 1s --seed 5 --storage memory --max 16MB --json -));
	is($code, 0, 'JSON to standard output');
	ok(eval { decode_json($out) }, 'and nothing else there');
	like($err, qr/^passed \(seed 5\)/m, 'the rest goes to standard error');

	($code, $out) = run(qw(--duration 3s --seed 6 --storage memory --max 16MB --progress));
	like($out, qr/\d tps .* p99 .* pool .* resizes \d/, 'a line every second');

	($code) = run(qw(--duration 1s --storage memory --max 16MB --json /nowhere/at/all));
	is($code, 2, 'JSON that cannot be written');
}

# A working set that fits is hit nearly always, one twice as large about every second time.
sub test_hit_ratio
{
	my ($code, $out) = run(qw(--hit-ratio --storage memory --max 8MB --distribution uniform --seed 7),
		'--json', "$work/hits.json");
	is($code, 0, 'hit ratios');
	my @rows = @{ decode_json(slurp("$work/hits.json"))->{hit_ratio_by_working_set} };
	my @small = grep { $_->{of_pool} <= 0.75 } @rows;
	my @large = grep { $_->{of_pool} >= 2 } @rows;
	ok(@small && !(grep { $_->{hit_ratio} < 0.95 } @small), 'of a working set that fits');
	ok(@large && !(grep { $_->{hit_ratio} > 0.6 } @large), 'of one that does not');
	like($out, qr/of the pool/, 'a table of them');
}

sub test_too_large
{
	my ($code, $out, $err) = run(qw(--huge on --max 4TB --start 4TB --pages 10));
	is($code, 77, 'more memory than there is: cannot run here');
	like($err, qr/^tidestress: cannot run here: \w+: /m, 'says why');
	is(left_over(), '', 'no folder is left');
}

sub test_interrupt
{
	for my $signal (qw(TERM INT))
	{
		my $pid = start(qw(--duration 60s --seed 8 --max 16MB));
		for (1 .. $begin * 20)
		{
			last if left_over() ne '';
			sleep 0.05;
		}
		kill $signal, $pid;
		my ($code, $out, $err) = finish($pid);
		is($code, 0, "SIG$signal ends it in good order") or diag($err);
		is(left_over(), '', 'no folder is left');
	}
}

test_usage();
test_storm();
test_kinds();
test_output();
test_hit_ratio();
test_too_large();
test_interrupt();
done_testing();
