-- The design of topicpartition.io: a table and a counter row for each partition. The writing statement
-- raises the counter and inserts at the offsets below it; it holds the counter's row until
-- its commit. A consumer raises its group's offset and reads the range in one transaction, and polls.
-- `bench.partitions` is the number of partitions.
create schema if not exists baseline;

create table baseline.partition_counter (
  partition_id int primary key,
  next_offset bigint not null default 1
);

create table baseline.partition_offsets (
  group_id text not null,
  partition_id int not null,
  next_offset bigint not null default 1,
  primary key (group_id, partition_id)
);

do $$
begin
  for n in 0 .. current_setting('bench.partitions')::int - 1 loop
    execute format(
      'create table baseline.partition_%s (
        id bigserial primary key,
        c_offset bigint not null unique,
        payload bytea not null,
        created_at timestamptz not null default now()
      )',
      n
    );
    insert into baseline.partition_counter values (n);
  end loop;
end
$$;
