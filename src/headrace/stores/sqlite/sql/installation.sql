-- Which installation a database holds. Asked in transactions of other people's, where no statement may fail.

-- name: is_there
select count(*) from sqlite_master where type = 'table' and name = 'headrace_meta';

-- name: id
select value from headrace_meta where name = 'installation_id';
