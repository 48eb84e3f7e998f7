create table if not exists headrace_registers (
    name varbinary(300) not null primary key,
    until_us bigint not null,
    body mediumblob not null,
    key until_us (until_us)
) engine = innodb row_format = dynamic default charset = utf8mb4;

create table if not exists headrace_parked (
    id varbinary(800) not null primary key,
    queue varbinary(255) not null,
    reason varbinary(1000) not null,
    turn bigint not null,
    place bigint not null,
    key line (queue, reason, turn, place)
) engine = innodb row_format = dynamic default charset = utf8mb4;

insert into headrace_parked (id, queue, reason, turn, place)
select j.id, j.queue, j.reason, j.turn, j.place from headrace_jobs as j where j.state = 'parked'
on duplicate key update id = headrace_parked.id;

update headrace_meta set value = '4' where name = 'schema';

insert into headrace_registers (name, body, until_us) values ('circuit:bank', '{}', 4102444800000000);
