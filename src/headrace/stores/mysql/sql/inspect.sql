-- What this server and its settings promise, for `headrace doctor`. A setting that a server does not know gives no row.

-- name: version
select version();

-- name: settings
show global variables where variable_name in (
    'innodb_flush_log_at_trx_commit', 'sync_binlog', 'innodb_doublewrite', 'log_bin', 'binlog_format', 'read_only',
    'max_allowed_packet', 'innodb_snapshot_isolation'
);

-- name: isolation
show session variables where variable_name in ('transaction_isolation', 'tx_isolation');

-- name: engines
-- Tables of ours that are not InnoDB: `like` knows no way to name the prefix but its own.
select table_name from information_schema.tables
where table_schema = database() and left(table_name, char_length('headrace_')) = 'headrace_' and engine <> 'InnoDB';

-- name: oldest
-- How long the oldest open transaction has lasted, in seconds. Needs the privilege PROCESS.
select timestampdiff(second, min(trx_started), now()) from information_schema.innodb_trx;
