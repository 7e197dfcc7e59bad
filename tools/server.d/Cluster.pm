# SPDX-License-Identifier: PostgreSQL
#
# A private PostgreSQL: a copy of Debian's server with the extension beside it, one cluster, a Unix
# socket and no TCP, all in one temporary folder. Nothing is installed into the system's server.
#
# PostgreSQL refuses to run as root; as root everything of the server runs as the user postgres,
# who owns the folder. Connections are trusted: nobody else can enter the folder.

package Cluster;

use strict;
use warnings;

use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use POSIX ();

use Session;

use constant MAJOR => 15;
use constant PORT  => 5432;

my $top = dirname(dirname(__FILE__)) . '/..';

# $name becomes part of the folder's name; needs `make extension` to have been run.
sub new
{
	my ($class, $name) = @_;
	my $build = $ENV{BUILD} // "$top/build";
	my $folder = tempdir("tidepool-$name.XXXXXX", DIR => $ENV{TMPDIR} // '/var/tmp', CLEANUP => 1);
	my $self = bless {
		folder => $folder,
		data   => "$folder/data",
		socket => "$folder/socket",
		log    => "$folder/server.log",
		as     => [],
	}, $class;

	if ($> == 0)
	{
		die "there is no user postgres to run a server as\n" unless getpwnam 'postgres';
		$self->{as} = [qw(runuser -u postgres --)];
	}
	mkdir $self->{socket} or die "$self->{socket}: $!\n";
	$self->copy_server("$build/postgres-${\ MAJOR}/tidepool.so");
	$self->run('chown', '-R', 'postgres:', $folder) if $> == 0;
	return $self;
}

# A copy of the server finds its folders relative to its programs.
sub copy_server
{
	my ($self, $library) = @_;
	local $ENV{TIDEPOOL_CACHE} = "$self->{folder}/cache";
	chomp(my @said = qx($top/tests/servers/build ${\ MAJOR} 2>&1));
	die join("\n", @said) . "\n" if $?;
	my $pg_config = $said[-1];
	chomp($self->{bin} = qx($pg_config --bindir));
	chomp(my $libraries = qx($pg_config --pkglibdir));
	chomp(my $shared = qx($pg_config --sharedir));
	die "$library is missing: make extension\n" unless -e $library;
	for my $file ($library, glob("$top/src/postgres/tidepool*.{control,sql}"))
	{
		my $to = $file =~ /\.so$/ ? $libraries : "$shared/extension";
		copy($file, $to) or die "cannot copy $file: $!\n";
	}
}

sub run
{
	my ($self, @command) = @_;
	my $out = "$self->{folder}/command.log";
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0)
	{
		open STDOUT, '>', $out;
		open STDERR, '>&', \*STDOUT;
		open STDIN, '<', '/dev/null';
		chdir $self->{folder};
		exec @command or POSIX::_exit(127);
	}
	$self->{children}{$pid} = 1;
	waitpid $pid, 0;
	delete $self->{children}{$pid};
	return if $? == 0;
	my $status = $?;
	open my $fh, '<', $out;
	my $said = join '', $fh ? <$fh> : ();
	die "@command failed with status $status:\n$said" . $self->last_log;
}

# The end of the server's log, to say why it did not start.
sub last_log
{
	my ($self) = @_;
	open my $fh, '<', $self->{log} or return '';
	my @lines = <$fh>;
	return join '', @lines > 12 ? @lines[ -12 .. -1 ] : @lines;
}

sub program
{
	my ($self, $name) = @_;
	return "$self->{bin}/$name";
}

sub init
{
	my ($self, @options) = @_;
	$self->run(@{ $self->{as} }, $self->program('initdb'), '-D', $self->{data},
		'--username=postgres', '--auth=trust', '--no-locale', '--encoding=UTF8',
		'--no-sync', @options);
}

# Starts with these settings and no others: the file is written anew each time.
sub start
{
	my ($self, %settings) = @_;
	my %all = (
		listen_addresses        => "''",
		port                    => PORT,
		unix_socket_directories => "'$self->{socket}'",
		log_min_messages        => 'warning',
		lc_messages             => "'C'",
		%settings,
	);
	open my $fh, '>', "$self->{data}/postgresql.conf" or die "$self->{data}/postgresql.conf: $!\n";
	print $fh map { "$_ = $all{$_}\n" } sort keys %all;
	close $fh;
	$self->run(@{ $self->{as} }, $self->program('pg_ctl'), 'start', '-D', $self->{data}, '-l',
		$self->{log}, '-w', '-s', '-t', 120);
	$self->{session} = $self->session;
}

sub running
{
	my ($self) = @_;
	return -e "$self->{data}/postmaster.pid";
}

sub stop
{
	my ($self, $mode) = @_;
	delete $self->{session};
	return unless $self->running;
	$self->run(@{ $self->{as} }, $self->program('pg_ctl'), 'stop', '-D', $self->{data}, '-w', '-s',
		'-m', $mode // 'fast', '-t', 300);
}

# Ends the server whatever it is doing, and what was started beside it.
sub halt
{
	my ($self) = @_;
	$self->reap_all;
	eval { $self->stop('immediate'); 1 } or warn $@;
}

# The same, and removes the folder.
sub destroy
{
	my ($self) = @_;
	$self->halt;
	chdir '/';
	remove_tree($self->{folder});
}

sub session
{
	my ($self, $database) = @_;
	return Session->new($self->program('psql'), '-XAtq', '-F', '|', '-v', 'VERBOSITY=terse', '-h',
		$self->{socket}, '-p', PORT, '-U', 'postgres', '-d', $database // 'postgres');
}

# On the cluster's own session.
sub query
{
	my ($self, $sql) = @_;
	return $self->{session}->query($sql);
}

# The columns of tidepool.status by name.
sub status
{
	my ($self, @columns) = @_;
	my ($row) = $self->query('SELECT ' . join(', ', @columns) . ' FROM tidepool.status');
	my %status;
	@status{@columns} = @$row;
	return \%status;
}

# What resize() answers, columns by name, and the seconds that its client waited.
my @outcome = qw(state direction requested_bytes allocatable_bytes committed_bytes returned_bytes
  evicted_pages written_pages blocked_chunks code message);

sub resize_sql
{
	my ($size) = @_;
	return 'SELECT ' . join(', ', @outcome) . ', extract(epoch FROM elapsed) * 1000, '
	  . "phases->'first_publish_ms', phases->'release_ms', phases->'drain_ms', "
	  . "phases->'commit_ms', phases->'publish_ms' FROM tidepool.resize('$size')";
}

sub resize_outcome
{
	my ($session) = @_;
	my ($row) = $session->rows;
	my %outcome;
	@outcome{@outcome, qw(elapsed_ms first_publish_ms release_ms drain_ms commit_ms publish_ms)} =
	  @$row;
	$outcome{wall_ms} = $session->seconds * 1000;
	return \%outcome;
}

sub resize
{
	my ($self, $size) = @_;
	$self->{session}->start(resize_sql($size));
	$self->{session}->ended(600);
	my $outcome = resize_outcome($self->{session});
	die "resize to $size ended as $outcome->{state}: $outcome->{code} $outcome->{message}\n"
	  unless $outcome->{state} eq 'done';
	return $outcome;
}

sub pgbench
{
	my ($self, @options) = @_;
	return ($self->program('pgbench'), '-h', $self->{socket}, '-p', PORT, '-U', 'postgres',
		@options, 'postgres');
}

# Starts a program beside this one; what it says goes to a file in the folder. Returns its pid.
sub spawn
{
	my ($self, $out, @command) = @_;
	my $pid = fork() // die "fork: $!\n";
	if ($pid == 0)
	{
		open STDOUT, '>', "$self->{folder}/$out";
		open STDERR, '>&', \*STDOUT;
		open STDIN, '<', '/dev/null';
		chdir $self->{folder};
		exec @command or POSIX::_exit(127);
	}
	$self->{children}{$pid} = 1;
	return $pid;
}

# Ends a program that spawn() started.
sub reap
{
	my ($self, $pid) = @_;
	delete $self->{children}{$pid} or return;
	kill 'TERM', $pid;
	waitpid $pid, 0;
}

sub reap_all
{
	my ($self) = @_;
	$self->reap($_) for keys %{ $self->{children} };
}

sub postmaster
{
	my ($self) = @_;
	open my $fh, '<', "$self->{data}/postmaster.pid" or return undef;
	chomp(my $pid = <$fh>);
	return $pid;
}

# The postmaster and its children.
sub pids
{
	my ($self) = @_;
	my $postmaster = $self->postmaster // return ();
	my @pids = ($postmaster);
	for my $file (glob '/proc/[0-9]*/stat')
	{
		open my $fh, '<', $file or next;
		my ($pid, $parent) = (<$fh> // '') =~ /^(\d+) \(.*\) \S (\d+)/ or next;
		push @pids, $pid if $parent == $postmaster;
	}
	return @pids;
}

# Errors in the server's log since this was asked for the last time.
sub new_errors
{
	my ($self) = @_;
	open my $fh, '<', $self->{log} or return 0;
	seek $fh, $self->{log_at} // 0, 0;
	my $errors = grep { /(?:ERROR|FATAL|PANIC): / } <$fh>;
	$self->{log_at} = tell $fh;
	return $errors;
}

1;
