-- What this server and its settings promise, for `headrace doctor`. Views show of other users' sessions what ours may see.

-- name: settings
select current_setting('server_version_num')::integer, pg_is_in_recovery(), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('track_counts');

-- name: horizon
-- The longest transaction and the longest idle one of this database, in seconds: dead rows stay while they last.
select coalesce(extract(epoch from max(statement_timestamp() - xact_start)), 0)::bigint,
    coalesce(extract(epoch from max(statement_timestamp() - state_change) filter (where state like 'idle in%')), 0)::bigint
from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend';

-- name: dead
-- Living and dead rows of the hot table.
select coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
from pg_stat_user_tables where relid = to_regclass('headrace_jobs');

-- name: slots
-- Replication slots that hold old rows or logs, the inactive ones first.
select slot_name::text, active from pg_replication_slots where xmin is not null or catalog_xmin is not null or not active
order by active, slot_name limit 5;

-- name: prepared
-- Transactions that wait for a second phase which may never come.
select count(*) from pg_prepared_xacts where database = current_database();
