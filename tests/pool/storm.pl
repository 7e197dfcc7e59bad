#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Eight threads of four processes torment a pool while it is resized every 50 ms between 5 % and 100 %, somebody is
# killed every second, and storage fails; in every build of tidestress that is there. TIDE_TEST_LONG=1 makes it longer, and
# TIDE_STORM_SECONDS sets the time. A run that fails prints how to repeat it.

use strict;
use warnings;

use FindBin;
use Test::More;

my $build = "$FindBin::RealBin/../../build";
my $seconds = $ENV{TIDE_STORM_SECONDS} // ($ENV{TIDE_TEST_LONG} ? 30 : 15);
my @torments = qw(--threads 8 --processes 4 --resize-interval 50ms --resize-min 5 --resize-max 100
  --kill-interval 1s --faults 1000 --quiet);

# [ name, folder, what it is started with ]
my @builds = (
	[ 'plain', $build, [] ],
	[ 'address,undefined', "$build/address,undefined", [] ],
	[ 'thread', "$build/thread", [ 'setarch', '-R' ] ],
);

for my $storage ('file', 'memory')
{
	for my $kind (@builds)
	{
		my ($name, $folder, $prefix) = @$kind;
		my $program = "$folder/bin/tidestress";

	  SKIP:
		{
			skip "no build of tidestress with $name", 1 unless -x $program;
			my $status = system @$prefix, $program, @torments, '--storage', $storage, '--duration', $seconds;
			is($status, 0, "$name, $storage storage: $seconds seconds");
		}
	}
}

done_testing();
