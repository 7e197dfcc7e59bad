# SPDX-License-Identifier: PostgreSQL
#
# The load of the demonstration: a pgbench that runs beside the resizes, and what it did when.

package Load;

use strict;
use warnings;

use PgbenchLog;

use constant CLIENTS => 8;

sub start
{
	my ($class, $cluster) = @_;
	my $prefix = "$cluster->{folder}/transactions";
	my @options = ('-n', '-c', CLIENTS, '-j', 2, '-T', 3600, '-M', 'prepared');
	my @mix = ('-b', 'select-only@9', '-b', 'tpcb-like@1');
	my @log = ('-l', "--log-prefix=$prefix");
	return bless {
		cluster => $cluster,
		pid     => $cluster->spawn('pgbench.log', $cluster->pgbench(@options, @mix, @log)),
		log     => PgbenchLog->new($prefix),
		seconds => {},
	}, $class;
}

# Reads what was done since the last time.
sub follow
{
	my ($self) = @_;
	push @{ $self->{seconds}{ int $_->[0] } }, $_ for $self->{log}->read_new;
}

# Transactions that ended in these seconds.
sub between
{
	my ($self, $from, $until) = @_;
	my @near = map { @{ $self->{seconds}{$_} // [] } } int $from .. int $until;
	return grep { $_->[0] >= $from && $_->[0] < $until } @near;
}

# Transactions a second and the 99th percentile of their latency, in ms.
sub rate
{
	my ($self, $from, $until) = @_;
	my @latencies = map { $_->[1] } $self->between($from, $until);
	return (@latencies / ($until - $from), PgbenchLog::percentile(0.99, @latencies));
}

# Is pgbench still there? It ends by itself when a transaction fails.
sub alive
{
	my ($self) = @_;
	return kill 0, $self->{pid};
}

sub stop
{
	my ($self) = @_;
	$self->{cluster}->reap($self->{pid});
}

1;
