#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# What a user of the library gets: it is installed into a temporary prefix, the example is compiled
# against it, shared and static, with the flags of pkg-config, and run; only tide_ names are exported;
# the manual pages are without fault and name every function of the public headers.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;

my $top    = abs_path("$FindBin::RealBin/../..");
my $build  = $ENV{BUILD} // 'build';
my $work   = tempdir('tidepool-example.XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $prefix = "$work/usr";
my $cc     = $ENV{CC} // 'cc';

$ENV{PKG_CONFIG_PATH} = "$prefix/lib/pkgconfig";

sub output
{
	my ($command) = @_;
	my $output = qx($command 2>&1);
	is($?, 0, $command =~ s/\Q$work\E\/?//gr) or diag($output);
	return $output;
}

sub slurp
{
	my ($file) = @_;
	open my $fh, '<', $file or die "$file: $!\n";
	local $/;
	return scalar <$fh>;
}

# Compiles the example and runs it in a folder of its own.
sub example
{
	my ($how, $options, $libs) = @_;
	my $program = "$work/$how";
	my $files   = "$work/files-$how";

	mkdir $files;
	output("$cc -Wall -Wextra -Werror -o $program $top/examples/pool.c"
		  . " \$(pkg-config $options --cflags tidepool) $libs");
	my $said = output("$program $files");
	like($said, qr/^4194304 bytes allocatable, 4194304 committed, 67108864 at most$/m, "$how: shrunk");
	like($said, qr/^page 7 says hello$/m, "$how: the page is there");
	ok(-s "$files/1", "$how: and in its file");
	like(qx($program $work/nowhere 2>&1), qr/nowhere/, "$how: a missing folder is named");
	isnt($? >> 8, 0, "$how: and is an error");
}

output("make -s -C $top install BUILD=$build PG_CONFIGS= prefix=$prefix");
$ENV{LD_LIBRARY_PATH} = "$prefix/lib";
example('shared', '', '$(pkg-config --libs tidepool)');
delete $ENV{LD_LIBRARY_PATH};
example('static', '--static',
	"-Wl,-Bstatic \$(pkg-config --libs-only-L --libs-only-l tidepool)"
	  . ' -Wl,-Bdynamic $(pkg-config --static --libs tidepool)');

my @exported = map { (split)[2] } split /\n/, output("nm -D --defined-only $prefix/lib/libtidepool.so");
my %exported = map { s/@.*//r => 1 } grep { !/^TIDEPOOL_/ } @exported;
cmp_ok(scalar keys %exported, '>', 50, 'the library exports functions');
is_deeply([ grep { !/^tide_/ } sort keys %exported ], [], 'and only tide_ names');

my $manual = join '', map { slurp($_) } glob "$prefix/share/man/man3/*.3";
my %declared = map { $_ => 1 }
  map { slurp($_) =~ /^TIDE_PUBLIC\b[^;]*?\b(tide_\w+)\s*\(/gm } glob "$prefix/include/tidepool/*.h";
is_deeply([ grep { !$exported{$_} } sort keys %declared ], [], 'what the headers declare is there');
is_deeply([ grep { $manual !~ /^\.Fn \Q$_\E\b/m && $manual !~ /^\.Fo \Q$_\E\b/m } sort keys %declared ],
	[], 'and in the manual');
SKIP:
{
	skip('mandoc is not installed', 1) if system('command -v mandoc >/dev/null') != 0;
	is(qx(mandoc -Tlint -Wwarning $prefix/share/man/man*/*.[13] 2>&1), '', 'the manual is without fault');
}
done_testing();
