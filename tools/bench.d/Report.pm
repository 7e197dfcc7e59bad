# SPDX-License-Identifier: PostgreSQL
#
# Figures: medians and spreads, a line of the table for each requirement, a JSON file for each
# group.
#
# A group fills a report: figures() under stable names whose last part is the unit, requirement()
# for what the figures must hold.

package Report;

use strict;
use warnings;

use File::Path qw(make_path);
use JSON::PP;
use POSIX qw(strftime);
use Time::HiRes qw(time);

use constant LAYOUT => "  %-46s %16s %16s %8s  %-9s %s\n";

sub new
{
	my ($class, $group, %facts) = @_;
	return bless {
		group  => $group,
		begun  => time,
		facts  => \%facts,
		values => {},
		required => {},
	}, $class;
}

sub median
{
	my (@numbers) = sort { $a <=> $b } @_;
	return undef unless @numbers;
	my $middle = int(@numbers / 2);
	return @numbers % 2 ? $numbers[$middle] : ($numbers[ $middle - 1 ] + $numbers[$middle]) / 2;
}

sub rounded
{
	my ($number) = @_;
	return undef unless defined $number;
	return 0 + sprintf(abs $number >= 100 ? '%.1f' : '%.4f', $number);
}

# name_unit => number or [numbers of several runs]: the median, and the runs beside it.
sub figures
{
	my ($self, %values) = @_;
	for my $key (keys %values)
	{
		my $value = $values{$key};
		if (ref $value eq 'ARRAY')
		{
			my ($name, $unit) = $key =~ /^(.*)_([^_]+)$/;
			$self->{values}{"${name}_runs_$unit"} = [ map { rounded($_) } @$value ];
			$value = median(@$value);
		}
		$self->{values}{$key} = $value =~ /^-?[\d.]+(?:e-?\d+)?$/ ? rounded($value) : $value;
	}
}

sub heading
{
	printf LAYOUT, 'figure', 'measured', 'against', 'ratio', 'at least', '';
}

# name: stable; figure, measured, against: for people; value and either at_most or at_least; ratio:
# whether the value is one.
sub requirement
{
	my ($self, %r) = @_;
	my $limit = $r{at_most} // $r{at_least};
	my $holds = defined $r{at_most} ? $r{value} <= $limit : $r{value} >= $limit;
	my %kept = (
		value => rounded($r{value}),
		unit => $r{unit} // 'ratio',
		holds => $holds ? JSON::PP::true : JSON::PP::false);
	$kept{at_most} = 0 + $r{at_most} if defined $r{at_most};
	$kept{at_least} = 0 + $r{at_least} if defined $r{at_least};
	$self->{required}{ $r{name} } = \%kept;
	printf LAYOUT, $r{figure}, $r{measured}, $r{against} // '',
	  $r{unit} ? '' : sprintf('%.3f', $r{value}),
	  (defined $r{at_most} ? '<= ' : '>= ') . $limit . ($r{unit} ? " $r{unit}" : ''),
	  $holds ? 'holds' : 'FALLS SHORT';
}

# A figure that is reported and has no limit.
sub remark
{
	my ($self, $figure, $measured, $against, $ratio) = @_;
	printf LAYOUT, $figure, $measured, $against // '',
	  defined $ratio ? sprintf('%.3f', $ratio) : '', '', '';
}

sub write
{
	my ($self, $folder) = @_;
	my %all = (
		%{ $self->{facts} },
		group    => $self->{group},
		taken_at => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime),
		took_s   => rounded(time - $self->{begun}),
		values   => $self->{values},
		required => $self->{required});
	make_path($folder);
	my $file = "$folder/$self->{group}.json";
	open my $fh, '>', $file or die "$file: $!\n";
	print $fh JSON::PP->new->canonical->pretty->indent_length(2)->encode(\%all);
	close $fh or die "$file: $!\n";
	return $all{took_s};
}

1;
