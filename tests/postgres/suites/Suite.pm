# SPDX-License-Identifier: PostgreSQL
#
# PostgreSQL's own regression suites on a server whose pool is resized meanwhile.
#
#   Suite::run(huge_pages => 'off' | 'on', size => 'random' | 'floor')
#
# random: a session resizes to random sizes between floor and ceiling as long as the suites run;
# floor:  the pool is held at its floor, which little look-ahead of read streams makes low.
# Each test of the suites is one test here.
#
# TIDE_BASELINE=1 runs the suites on the same server without the extension: what fails there, fails
# for reasons that are not ours. TIDE_TEST_SEED repeats a sequence of sizes.

package Suite;

use strict;
use warnings;

use Beside;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant CEILING     => '512MB';
use constant MIN_RESIZES => 300;

my $source   = $ENV{TIDE_SERVER_SOURCE};
my $client   = $ENV{TIDE_SERVER_CLIENT};
my $major    = $ENV{TIDE_SERVER};
my $baseline = $ENV{TIDE_BASELINE};

# Tests of the source that fail on a server of another minor release, with the extension and without.
my %differs = (
	15 => {
		rules => '15.20 deparses a rule with AS before the alias, 15.18 without',
		alter_table => '15.20 refuses to alter a row type in use by a constraint, 15.18 did not',
	});

sub start
{
	my ($huge_pages) = @_;
	my $node = PostgreSQL::Test::Cluster->new('suite');

	$node->init(extra => [ '--no-locale', '--encoding=UTF8', '--data-checksums' ]);
	$node->append_conf('postgresql.conf', <<"CONF");
shared_buffers = ${\ CEILING}
huge_pages = off
max_connections = 50
max_prepared_transactions = 20
synchronize_seqscans = off
effective_io_concurrency = 1
maintenance_io_concurrency = 1
log_statement = none
CONF
	$node->append_conf('postgresql.conf', <<"CONF") unless $baseline;
shared_preload_libraries = 'tidepool'
tidepool.huge_pages = $huge_pages
CONF
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION tidepool') unless $baseline;
	Beside::prepare($node);
	return $node;
}

# Are suite and server of one minor release?
sub same_release
{
	my ($server) = qx($ENV{TIDE_PG_CONFIG} --version) =~ /(\d+\.\d+)/;
	return slurp_file("$source/.complete") eq "$server\n";
}

# Returns the command of a suite and the file that holds what differed.
sub command
{
	my ($suite, $node, $out) = @_;
	my $program = $ENV{PG_REGRESS};
	my $input   = "$source/src/test/regress";
	my @options = ("--schedule=$input/parallel_schedule", '--max-concurrent-tests=20');

	if ($suite eq 'isolation')
	{
		$program = $program =~ s{regress/pg_regress$}{isolation/pg_isolation_regress}r;
		$input   = "$source/src/test/isolation";
		@options = ("--schedule=$input/isolation_schedule");
	}
	return ($program, @options, "--inputdir=$input", "--outputdir=$out",
		"--dlpath=$client/lib", "--bindir=$client/bin",
		'--host=' . $node->host, '--port=' . $node->port);
}

# The outcome of each test, from the output of pg_regress: TAP since PostgreSQL 16.
sub outcomes
{
	my ($output) = @_;
	my @outcomes;
	for my $line (split /\n/, $output)
	{
		if ($line =~ /^(not )?ok \d+\s+[-+] (\S+)\s+\d+ ms/)
		{
			push @outcomes, [ $2, !$1 ];
		}
		elsif ($line =~ /^(?:test | {5})(\S+)\s+\.\.\. (ok|FAILED|failed)/)
		{
			push @outcomes, [ $1, $2 eq 'ok' ];
		}
	}
	return @outcomes;
}

sub run_suite
{
	my ($suite, $node, $out) = @_;
	mkdir $out;
	my @command = command($suite, $node, $out);
	my $known   = same_release() ? {} : $differs{$major} // {};

	open my $fh, '-|', @command or die "$command[0]: $!\n";
	my @outcomes = outcomes(do { local $/; <$fh> } // '');
	close $fh;
	for my $outcome (@outcomes)
	{
		my ($name, $passed) = @$outcome;
	  SKIP:
		{
			skip "$name: $known->{$name}", 1 if $known->{$name};
			ok($passed, "$suite: $name");
		}
	}
	cmp_ok(scalar @outcomes, '>', 90, "$suite: the whole schedule ran");
	return if $? == 0 || !-e "$out/regression.diffs";
	diag(join "\n", grep { defined } (split /\n/, slurp_file("$out/regression.diffs"))[ 0 .. 300 ]);
}

sub check_resizes
{
	my (@states) = @_;
	my %count;
	$count{$_}++ for @states;
	note "resizes: " . join ', ', map { "$count{$_} $_" } sort keys %count;

	cmp_ok($count{done} // 0, '>=', MIN_RESIZES, 'enough resizes completed meanwhile');
	my @wrong = grep { !/^(done|partial)$/ } keys %count;
	is("@wrong", '', 'every resize ended as done or partial');
}

sub check_observations
{
	my (@answers) = @_;
	cmp_ok(scalar @answers, '>', 30, 'views, prewarm and amcheck ran meanwhile');
	my %wrong = map { $_ => 1 } grep { $_ ne 't' } @answers;
	is(join("\n", sort keys %wrong), '', 'and always gave the right answer');
}

# The pool after it all: every B-tree is verified, then every page of the files.
sub check_pool
{
	my ($node) = @_;

	for my $database (qw(regression isolation_regression))
	{
		$node->safe_psql($database, 'CREATE EXTENSION IF NOT EXISTS amcheck');
		my ($code, undef, $errors) = $node->psql($database, <<'SQL');
SELECT bt_index_check(i.indexrelid, true)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
 WHERE a.amname = 'btree' AND c.relkind = 'i' AND c.relpersistence = 'p'
   AND i.indisready AND i.indisvalid
SQL
		is("$code $errors", '0 ', "$database: every B-tree is whole");
	}
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'every checksum is right');
	my ($crash) = slurp_file($node->logfile) =~ /^(.*(?:PANIC:|TRAP:|was terminated by signal).*)$/m;
	is($crash, undef, 'no crash and no failed assertion in the log');
}

sub hold_at_floor
{
	my ($node) = @_;
	my $sql = 'SELECT (tidepool.resize(min_bytes::text)).state FROM tidepool.status';
	is($node->safe_psql('postgres', $sql), 'done', 'the pool is at its floor');
}

sub check_floor
{
	my ($node) = @_;
	my $sql = 'SELECT allocatable_bytes = min_bytes FROM tidepool.status';
	is($node->safe_psql('postgres', $sql), 't', 'the pool is still at its floor');
}

sub run
{
	my (%wanted) = @_;
	my $out    = PostgreSQL::Test::Utils::tempdir('suite');
	my $node   = start($wanted{huge_pages});
	my $floor  = !$baseline && $wanted{size} eq 'floor';
	my $random = !$baseline && $wanted{size} eq 'random';

	hold_at_floor($node) if $floor;
	my $resizer  = $random   ? Beside::resizer($node, $out)  : undef;
	my $observer = $baseline ? undef : Beside::observer($node, $out);
	run_suite($_, $node, "$out/$_") for qw(core isolation);
	check_resizes($resizer->finish) if $resizer;
	check_observations($observer->finish) if $observer;
	check_floor($node) if $floor;
	check_pool($node);
	done_testing();
}

1;
