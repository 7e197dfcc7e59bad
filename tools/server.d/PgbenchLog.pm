# SPDX-License-Identifier: PostgreSQL
#
# The transactions that a running pgbench has written to its logs (--log): one array
# [end in seconds since the epoch, latency in ms] for each.

package PgbenchLog;

use strict;
use warnings;

# $prefix is what pgbench was given as --log-prefix.
sub new
{
	my ($class, $prefix) = @_;
	return bless { prefix => $prefix, at => {}, rest => {} }, $class;
}

# Transactions that appeared since the last call, in the order of each file.
sub read_new
{
	my ($self) = @_;
	my @transactions;
	for my $file (glob "$self->{prefix}.*")
	{
		open my $fh, '<', $file or next;
		seek $fh, $self->{at}{$file} // 0, 0;
		my $text = do { local $/; <$fh> } // '';
		$self->{at}{$file} = tell $fh;
		my @lines = split /\n/, ($self->{rest}{$file} // '') . $text, -1;
		$self->{rest}{$file} = pop @lines;
		for my $line (@lines)
		{
			my (undef, undef, $us, undef, $seconds, $microseconds) = split / /, $line;
			push @transactions, [ $seconds + $microseconds / 1e6, $us / 1000 ] if $us =~ /^\d+$/;
		}
	}
	return @transactions;
}

# The value below which this part of the numbers lies; undef for none.
sub percentile
{
	my ($part, @numbers) = @_;
	return undef unless @numbers;
	@numbers = sort { $a <=> $b } @numbers;
	my $index = int($part * @numbers);
	return $numbers[ $index < @numbers ? $index : -1 ];
}

1;
