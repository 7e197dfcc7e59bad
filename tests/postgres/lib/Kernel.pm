# SPDX-License-Identifier: PostgreSQL
#
# The pool as the kernel shows it: the memfd that backs it, and who has it.

package Kernel;

use strict;
use warnings;

use PostgreSQL::Test::Utils;

use constant NAME => '/memfd:postgres buffer pool';

# The path of the pool's memfd in a process; undef when it has none.
sub pool_file
{
	my ($pid) = @_;
	for my $path (glob "/proc/$pid/fd/*")
	{
		my $target = readlink $path // next;
		return $path if index($target, NAME) == 0;
	}
	return undef;
}

# Bytes that the kernel backs, metadata among them.
sub backed_bytes
{
	my ($pid) = @_;
	return (stat pool_file($pid))[12] * 512;
}

# Mappings of the pool in a process.
sub mappings
{
	my ($pid) = @_;
	open my $fh, '<', "/proc/$pid/maps" or return 0;
	return scalar grep { index($_, NAME) >= 0 } <$fh>;
}

# The memfd's inode: one for each pool that exists.
sub pool_inode
{
	my ($pid) = @_;
	my $file = pool_file($pid) // return undef;
	return (stat $file)[1];
}

# Processes of this user that still map the pool with this inode.
sub holders
{
	my ($inode) = @_;
	my @pids;
	for my $maps (glob '/proc/[0-9]*/maps')
	{
		open my $fh, '<', $maps or next;
		push @pids, $maps =~ /(\d+)/ if grep { / \Q$inode\E +\Q${\ NAME}\E/ } <$fh>;
	}
	return @pids;
}

1;
