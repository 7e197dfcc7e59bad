# SPDX-License-Identifier: PostgreSQL
#
# One connection that stays: a psql that is given statements and asked for their rows. A statement
# may be left running while the caller does something else.

package Session;

use strict;
use warnings;

use IO::Handle;
use IO::Select;
use IPC::Open3;
use Time::HiRes qw(time);

use constant MARK => '~~ statement ended ~~';

sub new
{
	my ($class, @psql) = @_;
	my $self = bless { rows => '' }, $class;
	$self->{pid} = open3($self->{in}, $self->{out}, undef, @psql);
	$self->{in}->autoflush(1);
	$self->{select} = IO::Select->new($self->{out});
	return $self;
}

# Sends a statement and does not wait for it.
sub start
{
	my ($self, $sql) = @_;
	$self->{rows} = '';
	$self->{sql} = $sql;
	$self->{started} = time;
	print { $self->{in} } "$sql;\n\\echo " . MARK . "\n";
}

# Has the statement ended? Waits for this many seconds at most.
sub ended
{
	my ($self, $seconds) = @_;
	my $until = time + $seconds;
	while (index($self->{rows}, MARK . "\n") < 0)
	{
		my $left = $until - time;
		return 0 unless $self->{select}->can_read($left > 0 ? $left : 0);
		my $got = sysread $self->{out}, $self->{rows}, 65536, length $self->{rows};
		die "the session ended: $self->{rows}\n" unless $got;
		$self->{seconds} = time - $self->{started};
	}
	return 1;
}

# The rows of the statement that ended: an array of columns for each.
sub rows
{
	my ($self) = @_;
	my $text = $self->{rows} =~ s/\Q${\ MARK}\E\n\z//r;
	die "$self->{sql}\n$text" if $text =~ /^(?:psql:.*)?(?:ERROR|FATAL|PANIC):/m;
	return map { [ split /\|/, $_, -1 ] } split /\n/, $text;
}

# Runs a statement to its end; its rows, or the first column of the first row.
sub query
{
	my ($self, $sql) = @_;
	$self->start($sql);
	$self->ended(3600);
	my @rows = $self->rows;
	return wantarray ? @rows : $rows[0] ? $rows[0][0] : undef;
}

# Seconds that the last statement took, as its client saw them.
sub seconds
{
	my ($self) = @_;
	return $self->{seconds};
}

sub quit
{
	my ($self) = @_;
	my $pid = delete $self->{pid} or return;
	close $self->{in};
	close $self->{out};
	waitpid $pid, 0;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);
	$self->quit;
}

1;
