/* src/postgres/tidepool--1.0.sql */
\echo Use "CREATE EXTENSION tidepool" to load this file. \quit

-- Resize the pool and wait for the outcome; cancelling the query cancels the resize.
CREATE FUNCTION tidepool.resize(
	size text,
	min_acceptable text DEFAULT NULL,
	timeout interval DEFAULT NULL,
	persist boolean DEFAULT false,
	dry_run boolean DEFAULT false,
	OUT state text,
	OUT direction text,
	OUT requested_bytes bigint,
	OUT allocatable_bytes bigint,
	OUT committed_bytes bigint,
	OUT returned_bytes bigint,
	OUT evicted_pages bigint,
	OUT written_pages bigint,
	OUT blocked_chunks bigint,
	OUT code text,
	OUT message text,
	OUT phases jsonb,
	OUT elapsed interval)
AS 'MODULE_PATHNAME', 'tidepool_resize'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION tidepool.resize(text, text, interval, boolean, boolean) FROM PUBLIC;

-- End the running operation; false when none runs.
CREATE FUNCTION tidepool.cancel()
RETURNS boolean
AS 'MODULE_PATHNAME', 'tidepool_cancel'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

REVOKE ALL ON FUNCTION tidepool.cancel() FROM PUBLIC;

CREATE FUNCTION tidepool.status_row(
	OUT state text,
	OUT max_bytes bigint,
	OUT min_bytes bigint,
	OUT target_bytes bigint,
	OUT allocatable_bytes bigint,
	OUT committed_bytes bigint,
	OUT metadata_bytes bigint,
	OUT returned_pool_bytes bigint,
	OUT returned_os_bytes bigint,
	OUT backing text,
	OUT page_bytes bigint,
	OUT huge_pages_fell_back boolean,
	OUT fallback_reason text,
	OUT server_segment_huge boolean,
	OUT numa text,
	OUT chunk_bytes bigint,
	OUT chunks jsonb,
	OUT worker_pid integer,
	OUT generation bigint,
	OUT last_state text,
	OUT last_code text,
	OUT last_message text)
AS 'MODULE_PATHNAME', 'tidepool_status'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE VIEW tidepool.status AS SELECT * FROM tidepool.status_row();

CREATE FUNCTION tidepool.progress_rows(
	OUT operation bigint,
	OUT phase text,
	OUT direction text,
	OUT requested_bytes bigint,
	OUT allocatable_bytes bigint,
	OUT chunks_total bigint,
	OUT chunks_done bigint,
	OUT chunks_left bigint,
	OUT blocked_chunks bigint,
	OUT evicted_pages bigint,
	OUT written_pages bigint,
	OUT elapsed interval,
	OUT eta interval)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tidepool_progress'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE VIEW tidepool.progress AS SELECT * FROM tidepool.progress_rows();

CREATE FUNCTION tidepool.chunk_rows(
	OUT chunk integer,
	OUT state text,
	OUT buffers integer,
	OUT parked integer,
	OUT valid integer,
	OUT dirty integer,
	OUT pinned integer,
	OUT usage_sum integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tidepool_chunks'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE VIEW tidepool.chunks AS SELECT * FROM tidepool.chunk_rows();

CREATE FUNCTION tidepool.history_rows(
	OUT operation bigint,
	OUT source text,
	OUT state text,
	OUT direction text,
	OUT from_bytes bigint,
	OUT requested_bytes bigint,
	OUT allocatable_bytes bigint,
	OUT committed_bytes bigint,
	OUT returned_bytes bigint,
	OUT evicted_pages bigint,
	OUT written_pages bigint,
	OUT blocked_chunks bigint,
	OUT code text,
	OUT message text,
	OUT phases jsonb,
	OUT elapsed interval,
	OUT ended_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tidepool_history'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE VIEW tidepool.history AS SELECT * FROM tidepool.history_rows() ORDER BY operation;

-- Buffers that hold up a resize now, by file; no row while nothing is being drained.  A victim that
-- is being filled has no file: all null.
CREATE FUNCTION tidepool.blocker_rows(
	OUT database oid,
	OUT tablespace oid,
	OUT relfilenode oid,
	OUT fork text,
	OUT buffers bigint,
	OUT chunks bigint,
	OUT pinned bigint,
	OUT dirty bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tidepool_blockers'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

-- The same by relation, one row for each backend suspected of the pins and one without a pid when
-- there is none.  A stock server does not record who pins a buffer: suspects hold a lock on the
-- relation and are in a transaction.  Names of relations are known in the current database only;
-- elsewhere the file's number stands for the relation's, which it is until the relation is rewritten.
-- Shared relations belong to no database: null.
CREATE VIEW tidepool.blockers AS
WITH held AS MATERIALIZED (
	SELECT b.*,
		CASE WHEN b.database IN (0, (SELECT oid FROM pg_catalog.pg_database
									 WHERE datname = pg_catalog.current_database()))
			THEN pg_catalog.pg_filenode_relation(b.tablespace, b.relfilenode)
		END AS relation
	FROM tidepool.blocker_rows() b
), suspect AS MATERIALIZED (
	SELECT DISTINCT l.database, l.relation, a.pid, a.state,
		COALESCE(a.xact_start, a.state_change, a.backend_start) AS since, a.query
	FROM pg_catalog.pg_locks l
	JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'relation' AND l.granted AND a.state IS DISTINCT FROM 'idle'
)
SELECT
	d.datname AS database,
	COALESCE(h.relation::text, h.relfilenode::text) AS relation,
	h.fork,
	h.buffers,
	h.chunks,
	h.pinned,
	h.dirty,
	s.pid AS suspected_pid,
	s.state AS backend_state,
	s.since,
	s.query
FROM held h
LEFT JOIN pg_catalog.pg_database d ON d.oid = h.database
LEFT JOIN suspect s ON h.pinned > 0 AND s.database = h.database
	AND s.relation = COALESCE(h.relation::oid, h.relfilenode);

-- One row per check: ok | warn | fail, what was found and what to do.
CREATE FUNCTION tidepool.doctor(
	OUT check_name text,
	OUT verdict text,
	OUT found text,
	OUT advice text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tidepool_doctor'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

DO $$
DECLARE
	fn regprocedure;
	view regclass;
BEGIN
	FOREACH fn IN ARRAY ARRAY['tidepool.status_row()', 'tidepool.progress_rows()', 'tidepool.chunk_rows()',
		'tidepool.history_rows()', 'tidepool.blocker_rows()', 'tidepool.doctor()']::regprocedure[]
	LOOP
		EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', fn);
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO pg_monitor', fn);
	END LOOP;
	FOREACH view IN ARRAY ARRAY['tidepool.status', 'tidepool.progress', 'tidepool.blockers',
		'tidepool.chunks', 'tidepool.history']::regclass[]
	LOOP
		EXECUTE format('GRANT SELECT ON %s TO pg_monitor', view);
	END LOOP;
END
$$;
GRANT USAGE ON SCHEMA tidepool TO PUBLIC;
