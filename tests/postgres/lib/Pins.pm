# SPDX-License-Identifier: PostgreSQL
#
# Pages that are held: a session with one open cursor for each of them. A cursor that stands on a
# row pins its page until it moves on or closes.

package Pins;

use strict;
use warnings;

use Tide;

use constant BUFFERS_PER_CHUNK => 256;

# One block of the table in each chunk that has one: chunk => block.
sub blocks_by_chunk
{
	my ($node, $table) = @_;
	my $rows = Tide::value($node, <<"SQL");
SELECT (bufferid - 1) / ${\ BUFFERS_PER_CHUNK}, min(relblocknumber)
  FROM pg_buffercache
 WHERE relfilenode = pg_relation_filenode('$table') AND relforknumber = 0
   AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
 GROUP BY 1
SQL
	return map { split /\|/ } split /\n/, $rows;
}

# A session that holds these blocks of the table until release() or until it is lost.
sub hold
{
	my ($node, $table, @blocks) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->set_query_timer_restart;

	my ($pid) = $session->query('SELECT pg_backend_pid()');
	my $sql = join '',
	  map { "DECLARE c$_ CURSOR FOR SELECT id FROM $table WHERE ctid = '($_,1)'; FETCH c$_;\n" }
	  @blocks;
	$session->query_safe("BEGIN;\n$sql");
	return { session => $session, pid => $pid };
}

sub release
{
	my ($pins) = @_;
	$pins->{session}->query_safe('ROLLBACK');
	$pins->{session}->quit;
}

1;
