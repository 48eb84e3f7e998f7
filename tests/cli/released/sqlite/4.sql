create table headrace_registers (
    name text primary key,
    body blob not null,
    until_us integer not null
);

create index headrace_registers_until on headrace_registers (until_us);

create index headrace_jobs_parked_for on headrace_jobs (queue, reason, priority desc, place) where state = 'parked';

update headrace_meta set value = 4 where name = 'schema';

insert into headrace_registers (name, body, until_us) values ('circuit:bank', x'7b7d', 4102444800000000);
