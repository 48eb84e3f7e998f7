-- Which installation a database holds. Asked in transactions of other people's, where no statement may fail.

-- name: is_there
select count(*) from information_schema.tables where table_schema = database() and table_name = 'headrace_meta';

-- name: id
select value from headrace_meta where name = 'installation_id';
