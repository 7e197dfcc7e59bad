#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Wrong input: an error with the right SQLSTATE, and nothing has changed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Tide;
use Whole;

use constant MB => 1024 * 1024;

my $node = Tide::new_node(size => '32MB');
my $before = Tide::status($node);

sub unchanged
{
	my ($name) = @_;
	my $after = Tide::status($node);
	is_deeply(
		[ @{$after}{qw(allocatable_bytes committed_bytes generation state)} ],
		[ @{$before}{qw(allocatable_bytes committed_bytes generation state)} ],
		"$name: nothing changed");
}

sub refused
{
	my ($arguments, $state, $name, %options) = @_;
	is(Tide::sqlstate($node, "SELECT * FROM tidepool.resize($arguments)", %options),
		$state, $name // $arguments);
	unchanged($name // $arguments);
}

# Sizes.
refused("'$_'", '22023')
  for (
	'0', '-1', '-64MB', '1B',
	'15MB', '65MB', '1TB', '9223372036854775807',
	'9223372036854775808', '18446744073709551616', '1e30', '1 parsec',
	'MB', '', ' ', 'NaN',
	'inf', '0x', '150%', '0%',
	'-5%', '5%%', '% 5', '12,5MB',
	'32MB 1', '32MB; DROP');
refused('NULL', '22004');

# Sizes that are odd and still sizes.
is(Tide::resize($node, 32 * MB + 1)->{direction}, 'none', 'a byte more is the present size');
is(Tide::resize($node, 32 * MB - 1)->{direction}, 'none', 'a byte less is the present size');
is(Tide::resize($node, " \t32 MB ")->{direction}, 'none', 'spaces around a size');
is(Tide::resize($node, '0.03125GB')->{direction}, 'none', 'a fraction');
$before = Tide::status($node);

# The other arguments.
refused(qq{'16MB', timeout => interval '$_'}, '22023')
  for ('0', '-1s', '-1 month 20 days', '100000 days');
refused(q{'48MB', min_acceptable => '1 parsec'}, '22023');
refused(q{'48MB', min_acceptable => '-1'}, '22023');
refused(
	q{'48MB', min_acceptable => '60MB'},
	'22023',
	'growing: more is acceptable than is asked for');
refused(
	q{'24MB', min_acceptable => '16MB'},
	'22023',
	'shrinking: less is acceptable than is asked for');
refused(q{'1 parsec', dry_run => true}, '22023', 'a dry run refuses as well');
refused(q{'65MB', persist => true}, '22023', 'a size that is refused is not persisted');
unlike(slurp_file($node->data_dir . '/postgresql.auto.conf'), qr/tidepool/, 'really not');

# Rights.
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE nobody LOGIN;
CREATE ROLE watcher LOGIN;
CREATE ROLE resizer LOGIN;
GRANT pg_monitor TO watcher;
GRANT EXECUTE ON FUNCTION tidepool.resize TO resizer;
SQL
my @views = qw(status progress blockers chunks history);

refused("'16MB'", '42501', 'a role without rights', user => 'nobody');
is(Tide::sqlstate($node, 'SELECT tidepool.cancel()', user => 'nobody'),
	'42501', 'nor may it cancel');
is(Tide::sqlstate($node, 'SELECT * FROM tidepool.doctor()', user => 'nobody'),
	'42501', 'nor see the doctor');
for my $view (@views)
{
	is(Tide::sqlstate($node, "SELECT * FROM tidepool.$view", user => 'nobody'),
		'42501', "nor read tidepool.$view");
	is(Tide::sqlstate($node, "SELECT * FROM tidepool.$view", user => 'watcher'),
		'', "pg_monitor reads tidepool.$view");
}
is(Tide::sqlstate($node, 'SELECT * FROM tidepool.doctor()', user => 'watcher'),
	'', 'pg_monitor asks the doctor');
refused("'16MB'", '42501', 'pg_monitor may not resize', user => 'watcher');
is(Tide::sqlstate($node, "SELECT tidepool.resize('32MB')", user => 'resizer'),
	'', 'a role that was granted it may');
$before = Tide::status($node);
isnt(Tide::sqlstate($node, "SELECT tidepool.resize('32MB', persist => true)", user => 'resizer'),
	'', 'but not write the configuration');
unlike(slurp_file($node->data_dir . '/postgresql.auto.conf'), qr/tidepool/, 'which did not change');
$before = Tide::status($node);

# Settings.
is(Tide::sqlstate($node, "ALTER SYSTEM SET tidepool.size = '$_'"), '22023', "tidepool.size = '$_'")
  for ('1 parsec', '-1', '150%', 'NaN');
is(Tide::sqlstate($node, "SET tidepool.size = '16MB'"),
	'55P02', 'the size is not for a session to set');
is(Tide::sqlstate($node, "SET tidepool.sise = '16MB'"), '42602', 'a setting that does not exist')
  if $ENV{TIDE_SERVER} >= 15;
unchanged('settings');

# A size above the ceiling or below the floor passes the check of a setting: it is refused at
# reload.
for my $size ('65MB', '1MB')
{
	my $offset = -s $node->logfile;
	Tide::value($node, "ALTER SYSTEM SET tidepool.size = '$size'");
	$node->reload;
	ok( Tide::until(
			"the reload is refused",
			sub { slurp_file($node->logfile, $offset) =~ /"tidepool.size" was not applied/ }),
		"a reload with $size says that it is not applied");
	unchanged("reload with $size");
}
Tide::value($node, 'ALTER SYSTEM RESET tidepool.size');

# Two at once.
my $request = Tide::held_request($node, 'drain', Tide::resize_sql('16MB'));
is(Tide::sqlstate($node, "SELECT tidepool.resize('48MB')"), '55006', 'one operation at a time');
is(Tide::sqlstate($node, "SELECT tidepool.resize('48MB', dry_run => true)"),
	'55006', 'nor a dry run beside it');
Tide::release($node);
is($request->row->{state}, 'done', 'the first one is not disturbed');
is(Tide::status($node)->{allocatable_bytes}, 16 * MB, 'and has its size');
is(Tide::value($node, 'SELECT tidepool.cancel()'), 'f', 'nothing is left to cancel');
Whole::check($node, 'wrong input');

done_testing();
