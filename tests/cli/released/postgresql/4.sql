create table headrace_registers (
    name text collate "C" not null primary key,
    body bytea not null,
    until_us bigint not null
) with (
    fillfactor = 30,
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

create index headrace_jobs_parked_for on headrace_jobs (queue, (left(reason, 200)), (-priority), place)
where state = 'parked';

update headrace_meta set value = '4' where name = 'schema';

insert into headrace_registers (name, body, until_us) values ('circuit:bank', '{}', 4102444800000000);
