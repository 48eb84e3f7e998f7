-- Which installation a database holds. Asked in transactions of other people's, where no statement may fail.

-- name: is_there
select to_regclass('headrace_meta') is not null;

-- name: id
select value from headrace_meta where name = 'installation_id';
