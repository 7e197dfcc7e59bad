# SPDX-License-Identifier: PostgreSQL
#
# Is the pool whole? Every figure that the extension shows is compared with a scan of the server's
# own structures, with the kernel's figure, and with the server's log.

package Whole;

use strict;
use warnings;

use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;

# Status, and what contradicts it, in one statement: one moment.
my $sql = <<'SQL';
WITH status AS MATERIALIZED (SELECT * FROM tidepool.status),
looked AS MATERIALIZED (
	SELECT c.*, s.held, s.free, s.tagged, s.pinned AS in_use, s.broken
	  FROM tidepool.chunks c
	  JOIN tide_test.scan((SELECT (chunk_bytes / 8192)::int FROM status)) s USING (chunk))
SELECT json_build_object(
	'status', (SELECT row_to_json(status) FROM status),
	'buffers', (SELECT sum(buffers) FROM looked),
	'active', (SELECT count(*) FROM looked WHERE state = 'active'),
	'broken', (SELECT sum(broken) FROM looked),
	'wrong', (SELECT json_agg(row_to_json(looked)) FROM looked
		WHERE held <> parked
		   OR state = 'active' AND held <> 0
		   OR state <> 'active' AND (held <> buffers OR valid <> 0 OR dirty <> 0)
		   OR state NOT IN ('active', 'retired', 'lingering')))
SQL

# "resize STATE:" lines of the present life of shared memory.
sub outcomes
{
	my ($node) = @_;
	my @lives = split /starting PostgreSQL|all server processes terminated; reinitializing/,
	  slurp_file($node->logfile);
	return $lives[-1] =~ /LOG:  resize (\w+):/g;
}

# Lines that no test may bring about. A crash that the test caused is cut out by its offset.
sub no_crash
{
	my ($node, $name, $offset) = @_;
	my $log = slurp_file($node->logfile, $offset // 0);
	my ($line) = $log =~
	  /^(.*(?:PANIC:|TRAP:|was terminated by signal|Bus error|refcount leak|\(ERROR\) still).*)$/m;
	is($line, undef, "$name: no crash, no failed assertion, no leak in the log");
}

sub facts
{
	my ($node) = @_;
	return decode_json($node->safe_psql('postgres', $sql));
}

# One line an operation, and none for dry runs; the history keeps the last hundred.
sub check_log
{
	my ($node) = @_;
	my @outcomes = outcomes($node);
	my $history = Tide::value($node, 'SELECT count(*) FROM tidepool.history');
	my $logged = @outcomes > 100 ? 100 : @outcomes;
	my @last = splice @outcomes, @outcomes > 5 ? -5 : 0;
	is($logged, $history, "one line in the log for each operation: ... @last");
}

# The whole check; nothing may run. crashed_at: offset in the log of a crash that the test caused.
sub check
{
	my ($node, $name, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	subtest "$name: the pool is whole" => sub {
		my $facts = facts($node);
		my $status = $facts->{status};
		my %count = %{ $status->{chunks} };
		my $kept = $count{active} + $count{lingering};

		is($status->{state}, 'idle', 'nothing runs');
		is($facts->{wrong}, undef, 'every chunk is what it says')
		  or diag(JSON::PP->new->pretty->encode([ splice @{ $facts->{wrong} }, 0, 3 ]));
		is($facts->{broken}, 0, 'every page is found where it is');
		is($facts->{active}, $count{active}, 'as many active chunks as counted');
		is( $status->{allocatable_bytes},
			$count{active} * $status->{chunk_bytes},
			'allocatable = active chunks');
		is( $status->{committed_bytes},
			$kept * $status->{chunk_bytes},
			'the kernel backs active and lingering chunks and no others');
		is( $status->{returned_pool_bytes} + $status->{returned_os_bytes},
			$status->{max_bytes} - $status->{committed_bytes},
			'the rest is returned');
		is($facts->{buffers} * 8192, $status->{max_bytes}, 'no buffer is missing');
		check_log($node);
		no_crash($node, $name, $options{crashed_at});
	};
}

1;
