# SPDX-License-Identifier: PostgreSQL
#
# What every group of figures stands on: a private cluster with its tables, the sizes, huge pages
# lent for a while, and the raw calls that figures are compared with.
#
#   filler            one row a page and larger than the ceiling, so that it fills any pool
#   pgbench_*         three quarters of the ceiling

package Ground;

use strict;
use warnings;

use File::Basename qw(dirname);

use Cluster;
use HugePages;

use constant PAGES_PER_MB => 128;    # database pages, of 8 kB

my $programs = ($ENV{BUILD} // dirname(__FILE__) . '/../../build') . '/tools/bench.d';

sub new
{
	my ($class, $quick) = @_;
	my $self = bless { quick => $quick }, $class;
	my $available_mb = memory_kb('MemAvailable') / 1024;

	$self->{ceiling_mb} = $quick || $available_mb < 12 * 1024 ? 512 : 4096;
	$self->{small_mb} = $self->{ceiling_mb} / 4;
	$self->{blocks} = int($self->{ceiling_mb} * PAGES_PER_MB * 1.1);
	die "the smallest bench needs 2 GB of available memory\n" if $available_mb < 2048;
	for my $program (qw(raw_memory raw_write connect_latency))
	{
		die "$programs/$program is missing: make programs\n" unless -x "$programs/$program";
	}
	return $self;
}

sub memory_kb
{
	my ($what) = @_;
	open my $fh, '<', '/proc/meminfo' or die "/proc/meminfo: $!\n";
	my ($kb) = join('', <$fh>) =~ /^\Q$what\E:\s+(\d+) kB/m;
	return $kb // 0;
}

# How many times something is measured: in full, and quickly.
sub times
{
	my ($self, $full, $quick) = @_;
	return $self->{quick} ? $quick : $full;
}

# Makes the cluster and its tables.
sub prepare
{
	my ($self) = @_;
	$self->lend_overcommit;
	my $cluster = $self->{cluster} = Cluster->new('bench');
	$cluster->init;
	$self->start_plain(shared_buffers => '1GB');
	$cluster->query("CREATE EXTENSION $_") for qw(pg_prewarm pg_buffercache);
	$self->load_filler;
	$cluster->run($cluster->pgbench('-i', '-q', '-s', int($self->{ceiling_mb} / 20)));
	$cluster->query('CHECKPOINT');
	$self->start_ours(size_mb => $self->{small_mb});
	$cluster->query('CREATE EXTENSION tidepool');
	return $cluster;
}

# Rows of 420 bytes with a fill factor of 10: one a page, and room to update it in place.
sub load_filler
{
	my ($self) = @_;
	$self->{cluster}->query('BEGIN');
	$self->{cluster}->query(
		'CREATE TABLE filler (id int, v int, pad text) WITH (fillfactor = 10)');
	my $seq = 'seq -f "%.0f|0|' . 'x' x 420 . "\" $self->{blocks}";
	$self->{cluster}->query("COPY filler FROM PROGRAM '$seq' WITH (FREEZE, DELIMITER '|')");
	$self->{cluster}->query('COMMIT');
	$self->{cluster}->query('CREATE INDEX ON filler (id)');
	my $blocks = $self->{cluster}->query("SELECT pg_relation_size('filler') / 8192");
	die "filler has $blocks pages instead of $self->{blocks}\n" if $blocks != $self->{blocks};
}

my %settings = (
	huge_pages                      => 'off',
	max_connections                 => 100,
	fsync                           => 'off',
	autovacuum                      => 'off',
	wal_level                       => 'minimal',
	max_wal_senders                 => 0,
	max_wal_size                    => '32GB',
	checkpoint_timeout              => '1h',
	bgwriter_lru_maxpages           => 0,
	jit                             => 'off',
	max_parallel_workers_per_gather => 0,
	synchronize_seqscans            => 'off',
);

# In words, for whoever reads the figures.
sub settings_text
{
	return join ', ', map { "$_ = $settings{$_}" } sort keys %settings;
}

# The server without the extension.
sub start_plain
{
	my ($self, %more) = @_;
	$self->{cluster}->stop if $self->{cluster}->running;
	$self->{cluster}->start(%settings, %more);
}

# The server with it. size_mb: where it starts; ceiling_mb and huge_pages ('on') as given or usual.
sub start_ours
{
	my ($self, %more) = @_;
	my $ceiling_mb = delete $more{ceiling_mb} // $self->{ceiling_mb};
	my $size_mb = delete $more{size_mb} // $ceiling_mb;
	my $huge_pages = delete $more{tide_huge_pages} // 'on';
	$self->start_plain(
		shared_buffers           => "${ceiling_mb}MB",
		shared_preload_libraries => "'tidepool'",
		'tidepool.size'          => "'${size_mb}MB'",
		'tidepool.huge_pages'    => $huge_pages,
		%more);
}

# To this many MB; dies unless it is done.
sub resize
{
	my ($self, $mb) = @_;
	return $self->{cluster}->resize("${mb}MB");
}

# Reads pages of the filler into the pool: as many as the pool has, or this many.
sub fill
{
	my ($self, $session, $blocks) = @_;
	$blocks //= $self->{ceiling_mb} * PAGES_PER_MB;
	$session->query("SELECT pg_prewarm('filler', 'buffer', 'main', 0, $blocks - 1)");
}

# Pages in the pool and how many of them are dirty.
sub pages_in_pool
{
	my ($self) = @_;
	my ($row) = $self->{cluster}->query(
		'SELECT count(relfilenode), count(*) FILTER (WHERE isdirty) FROM pg_buffercache');
	return @$row;
}

# Surplus pages for the ceiling, what a server wants beside it, and its own huge_pages = on.
sub lend_overcommit
{
	my ($self) = @_;
	my $huge = $self->{overcommit} = HugePages->new;
	my ($said, $success) =
	  $huge->raise_overcommit(HugePages::pages_for($self->{ceiling_mb} * 1.08) + 64);
	die "huge pages cannot be had: $said\n" unless $success;
	print "$said\n";
}

# Pages in the pool, kept there until return_pool().
sub lend_pool
{
	my ($self) = @_;
	my $huge = $self->{pool} = HugePages->new;
	my ($said, $success) = $huge->raise_pool(HugePages::pages_for($self->{ceiling_mb}) + 32);
	die "huge pages cannot be had: $said\n" unless $success;
}

sub return_pool
{
	my ($self) = @_;
	my $huge = delete $self->{pool} or return;
	$huge->restore;
}

sub output
{
	my ($self, $program, @arguments) = @_;
	open my $fh, '-|', "$programs/$program", @arguments or die "$program: $!\n";
	my $line = <$fh> // '';
	close $fh or die "$program @arguments failed\n";
	return split ' ', $line;
}

# Commits and punches bytes with bare calls; milliseconds for each.
sub raw_memory
{
	my ($self, $how, $mb, $threads) = @_;
	return map { $_ / 1000 } $self->output('raw_memory', 'hugetlb', $how, $mb, $threads);
}

# Writes pages with bare calls into a copy of the filler; milliseconds.
sub raw_write
{
	my ($self, $folder, $pages, $stride) = @_;
	my ($us) = $self->output('raw_write', $folder, $pages, $stride, (1 << 30) / 8192);
	return $us / 1000;
}

sub connect_latency_command
{
	my ($self) = @_;
	return ("$programs/connect_latency",
		"host=$self->{cluster}{socket} port=${\ Cluster::PORT} user=postgres dbname=postgres");
}

sub restore
{
	my ($self) = @_;
	$self->{cluster}->halt if $self->{cluster};
	$self->return_pool;
	print "$_\n" for $self->{overcommit} ? $self->{overcommit}->restore : ();
	$self->{cluster}->destroy if $self->{cluster};
}

1;
