# SPDX-License-Identifier: PostgreSQL
#
# One statement in a psql of its own, that runs while the test goes on.
#
#   my $request = Request->new($node, $sql);
#   $request->client_pid; $request->backend_pid;
#   my $text = $request->finish;      # output and errors; row() decodes a row of resize()

package Request;

use strict;
use warnings;

use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;

sub new
{
	my ($class, $node, $sql, %options) = @_;
	my $self = bless { in => '', out => '', err => '' }, $class;
	my $prepare = $options{prepare} // 'SELECT 1';
	my @command = (
		$node->installed_command('psql'), '-XAtq',
		'-v', 'VERBOSITY=sqlstate',
		'-d', $node->connstr('postgres'),
		'-c', 'SELECT pg_backend_pid()',
		'-c', $prepare,
		'-c', "SELECT row_to_json(r) FROM ($sql) r");

	$self->{run} =
	  IPC::Run::start(\@command, '<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	$self->{run}->pump until $self->{out} =~ /^(\d+)\n/ || !$self->{run}->pumpable;
	($self->{backend}) = $self->{out} =~ /^(\d+)\n/;
	return $self;
}

sub backend_pid { return $_[0]{backend} }

# The client goes without a word to the server.
sub kill_client
{
	my ($self) = @_;
	$self->{run}->signal('KILL');
	eval { $self->{run}->finish };
}

sub finish
{
	my ($self) = @_;
	eval { $self->{run}->finish };
	return $self->{out} . $self->{err};
}

# The row that the statement returned, or { sqlstate => ... }.
sub row
{
	my ($self) = @_;
	my $text = $self->finish;
	return decode_json($1) if $text =~ /^(\{.*\})$/m;
	return { sqlstate => $text =~ /(?:ERROR|FATAL): +(\w{5})/ ? $1 : $text };
}

1;
