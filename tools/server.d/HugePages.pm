# SPDX-License-Identifier: PostgreSQL
#
# The machine's huge pages of 2 MiB: facts, and settings raised for a while.
#
# Others may write the same files at the same time, so a setting is raised by an amount and lowered
# by the same amount, both relative to what is found then.

package HugePages;

use strict;
use warnings;

use constant FOLDER   => '/sys/kernel/mm/hugepages/hugepages-2048kB';
use constant PAGE_KB  => 2048;

sub new
{
	my ($class) = @_;
	return bless { overcommit => 0, pool => 0 }, $class;
}

sub read_number
{
	my ($name) = @_;
	open my $fh, '<', FOLDER . "/$name" or return 0;
	my ($number) = (<$fh> // '') =~ /(\d+)/;
	return $number // 0;
}

sub write_number
{
	my ($name, $number) = @_;
	open my $fh, '>', FOLDER . "/$name" or return "$!";
	print $fh "$number\n";
	return close $fh ? '' : "$!";
}

# Pages: how many there are, free, promised to somebody, and above the pool's own number.
sub facts
{
	my %pages = map { $_ => read_number("${_}_hugepages") } qw(nr free resv surplus);
	$pages{used} = $pages{nr} - $pages{free};
	$pages{persistent} = $pages{nr} - $pages{surplus};
	$pages{overcommit} = read_number('nr_overcommit_hugepages');
	return \%pages;
}

# What a server with this ceiling commits at most: the pages, and 1.3 % for what describes them.
sub pages_for
{
	my ($ceiling_mb) = @_;
	return int($ceiling_mb * 1.013 * 1024 / PAGE_KB) + 8;
}

# Lets the kernel hand out this many pages more beyond the pool. Returns (sentence, success).
sub raise_overcommit
{
	my ($self, $pages) = @_;
	return ('this kernel has no huge pages of 2 MiB', 0) unless -d FOLDER;
	my $found = facts()->{overcommit};
	my $wrong = write_number('nr_overcommit_hugepages', $found + $pages);
	return ("nr_overcommit_hugepages stays at $found: $wrong", 0) if $wrong;
	$self->{overcommit} += $pages;
	return ("nr_overcommit_hugepages: $found -> " . ($found + $pages), 1);
}

# Puts this many pages more into the pool; the kernel may find fewer. Returns (sentence, success).
sub raise_pool
{
	my ($self, $pages) = @_;
	return ('this kernel has no huge pages of 2 MiB', 0) unless -d FOLDER;
	my $found = facts()->{persistent};
	my $wrong = write_number('nr_hugepages', $found + $pages);
	return ("nr_hugepages stays at $found: $wrong", 0) if $wrong;
	my $got = facts()->{persistent} - $found;
	$self->{pool} += $got if $got > 0;
	return ("nr_hugepages: $found -> " . ($found + $got), 1) if $got >= $pages;
	return ("nr_hugepages: only $got of $pages pages could be had", 0);
}

sub lower
{
	my ($name, $found, $by) = @_;
	my $wanted = $found > $by ? $found - $by : 0;
	my $wrong = write_number($name, $wanted);
	return $wrong ? "$name could not be put back by $by: $wrong" : "$name: $found -> $wanted";
}

# Takes back what this object raised. Returns a sentence for each setting.
sub restore
{
	my ($self) = @_;
	my ($pool, $overcommit) = delete @$self{qw(pool overcommit)};
	@$self{qw(pool overcommit)} = (0, 0);
	my @said;
	push @said, lower('nr_hugepages', facts()->{persistent}, $pool) if $pool;
	push @said, lower('nr_overcommit_hugepages', facts()->{overcommit}, $overcommit) if $overcommit;
	return @said;
}

1;
