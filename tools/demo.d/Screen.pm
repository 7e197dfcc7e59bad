# SPDX-License-Identifier: PostgreSQL
#
# What the demonstration prints: colours and bars on a terminal, the same words without them
# elsewhere.

package Screen;

use strict;
use warnings;

use constant BAR_WIDTH => 16;

my $terminal = -t STDOUT && ($ENV{TERM} // 'dumb') ne 'dumb' && !defined $ENV{NO_COLOR};
my $utf8 = $terminal && "@ENV{grep { defined $ENV{$_} } qw(LC_ALL LC_CTYPE LANG)}" =~ /utf-?8/i;
my %colour = (bold => 1, dim => 2, red => 31, green => 32, yellow => 33, cyan => 36);

sub paint
{
	my ($colour, $text) = @_;
	return $terminal ? "\e[$colour{$colour}m$text\e[0m" : $text;
}

sub heading
{
	my ($text) = @_;
	print "\n", paint('bold', $text), "\n";
}

sub say_line
{
	my ($text) = @_;
	print "  $text\n";
}

# A step that takes a while: its name now, the rest of the line when it is done.
sub begin
{
	my ($text) = @_;
	print "  $text ", paint('dim', '... ');
}

sub done
{
	my ($text) = @_;
	print paint('green', $text), "\n";
}

sub warning
{
	my ($text) = @_;
	print '  ', paint('yellow', $text), "\n";
}

sub size
{
	my ($bytes) = @_;
	return '-' unless $bytes;
	my $mb = $bytes / (1 << 20);
	return sprintf('%.0f MB', $mb) if $mb < 1024;
	return sprintf($mb % 1024 ? '%.1f GB' : '%.0f GB', $mb / 1024);
}

sub number
{
	my ($number) = @_;
	my $text = sprintf '%.0f', $number;
	1 while $text =~ s/^(\d+)(\d{3})/$1,$2/;
	return $text;
}

sub bar
{
	my ($part) = @_;
	my $full = int(BAR_WIDTH * $part + 0.5);
	my ($on, $off) = $utf8 ? ("\xe2\x96\x88", "\xe2\x96\x91") : ('#', '.');
	return paint('cyan', $on x $full) . paint('dim', $off x (BAR_WIDTH - $full));
}

sub live_heading
{
	say_line(paint('dim',
			'huge: pages of 2 MB in use, and still to be had; available: memory for others'));
	print paint('bold', sprintf("  %4s  %-*s %8s  %15s  %9s  %8s %8s %7s\n",
			's', BAR_WIDTH, 'pool', 'size', 'huge used/free', 'available', 'tps', 'p99 ms', 'hit'));
}

# One line a second.
sub live
{
	my (%now) = @_;
	printf "  %4d  %s %8s  %7s /%6s  %9s  %8s %8s %7s  %s\n", $now{second},
	  bar($now{bytes} / $now{ceiling_bytes}), size($now{bytes}), number($now{huge_used}),
	  number($now{huge_free}), size($now{available_bytes}), number($now{tps}),
	  defined $now{p99_ms} ? sprintf('%.1f', $now{p99_ms}) : '-',
	  defined $now{hit} ? sprintf('%.1f %%', 100 * $now{hit}) : '-', paint('yellow', $now{note});
}

# Rows of equal length; the first is the heading, the first column is text, the others are numbers.
sub table
{
	my (@rows) = @_;
	my @width;
	for my $row (@rows)
	{
		for my $i (0 .. $#$row)
		{
			$width[$i] = length $row->[$i] if length $row->[$i] > ($width[$i] // 0);
		}
	}
	for my $row (@rows)
	{
		my $line = join '   ', map { sprintf $_ ? '%*s' : '%-*s', $_ ? $width[$_] : $width[0],
			$row->[$_] } 0 .. $#$row;
		print '  ', $row == $rows[0] ? paint('bold', $line) : $line, "\n";
	}
}

1;
