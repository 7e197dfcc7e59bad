# SPDX-License-Identifier: PostgreSQL
#
# Sessions that work beside a regression suite, each in a process of its own, until they are told to
# end. Beside::resizer asks for random sizes; Beside::observer reads the buffer views, prewarms and
# verifies an index.

package Beside;

use strict;
use warnings;

use IPC::Open2 qw(open2);
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use constant PAUSE => 0.02;
use constant MARK  => '--- answered';

# Starts a session that runs $step->($session) over and over. Its findings, one a line, are kept in
# a file: a forked process must not speak TAP, and leaves without the end blocks of this one.
sub start
{
	my ($node, $dir, $name, $step) = @_;
	my $self = { name => $name, file => "$dir/$name", ended => "$dir/$name.ended" };

	$self->{pid} = fork() // die "fork: $!\n";
	return bless $self if $self->{pid};

	open my $fh, '>', $self->{file} or POSIX::_exit(1);
	my $done = eval {
		my $session = connect_to($node);
		while (!-e $self->{ended})
		{
			print $fh $step->($session), "\n";
			sleep PAUSE;
		}
		1;
	};
	print $fh "session lost: $@\n" unless $done;
	close $fh;
	POSIX::_exit($done ? 0 : 1);
}

# Ends the session and returns its findings.
sub finish
{
	my ($self) = @_;
	append_to_file($self->{ended}, '');
	waitpid $self->{pid}, 0;
	is($?, 0, "$self->{name}: the session lasted");
	return split /\n/, slurp_file($self->{file});
}

# A psql that lives as long as the process; errors come the same way as rows.
sub connect_to
{
	my ($node) = @_;
	my $connection = $node->connstr('postgres') . q{ options='-c statement_timeout=60s'};
	open2(my $out, my $in, "exec psql -XAtq -d \"$connection\" 2>&1");
	return { in => $in, out => $out };
}

# One statement's answer in one line; an error is an answer too.
sub answer
{
	my ($session, $sql) = @_;
	my @lines;

	print { $session->{in} } "$sql;\n\\echo ${\ MARK}\n";
	while (my $line = readline $session->{out})
	{
		chomp $line;
		return "@lines" if $line eq MARK;
		push @lines, $line;
	}
	die "@lines\n";
}

sub resizer
{
	my ($node, $dir) = @_;
	my ($min, $max) = split /\|/,
	  $node->safe_psql('postgres', 'SELECT min_bytes, max_bytes FROM tidepool.status');
	my $seed = $ENV{TIDE_TEST_SEED} // time;

	note "floor $min, ceiling $max, TIDE_TEST_SEED=$seed";
	srand $seed;
	my $step = sub {
		my $kb = int(($min + rand($max - $min)) / 1024);
		return answer($_[0], "SELECT state FROM tidepool.resize('${kb}kB')");
	};
	return start($node, $dir, 'resizes', $step);
}

# Every statement answers t.
sub observer
{
	my ($node, $dir) = @_;
	my @statements = (
		'SELECT count(*) > 0 FROM pg_buffercache',
		q{SELECT pg_prewarm('watched') > 0},
		q{SELECT bt_index_check('watched_pkey', true) IS NOT NULL},
		'SELECT count(*) = 20000 FROM watched');
	push @statements,
	  'SELECT count(*) > 0 FROM pg_buffercache_summary()',
	  'SELECT count(*) > 0 FROM pg_buffercache_usage_counts()'
	  if $ENV{TIDE_SERVER} >= 16;
	push @statements, 'SELECT count(*) >= 0 FROM pg_buffercache_numa'
	  if $ENV{TIDE_SERVER} >= 18
	  && $node->safe_psql('postgres', 'SELECT pg_numa_available()') eq 't';

	my $next = 0;
	my $step = sub { return answer($_[0], $statements[ $next++ % @statements ]) };
	return start($node, $dir, 'observations', $step);
}

# What the observer looks at, in a database that the suites leave alone.
sub prepare
{
	my ($node) = @_;
	$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION pg_buffercache;
CREATE EXTENSION pg_prewarm;
CREATE EXTENSION amcheck;
CREATE TABLE watched (id int PRIMARY KEY, filler text);
INSERT INTO watched SELECT i, repeat('x', 200) FROM generate_series(1, 20000) i;
SQL
}

1;
