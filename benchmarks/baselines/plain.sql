-- A bound that no design can beat: the outbox's own columns, indexes and partitions, without trigger,
-- offsets and readers.
create schema if not exists baseline;

create sequence baseline.plain_message_id_seq as bigint cache 1;

create table baseline.plain_message_t (like gapless.outbox_message_t including all)
  partition by range (id);

alter table baseline.plain_message_t
  alter column id set default nextval('baseline.plain_message_id_seq');

create table baseline.plain_message_default partition of baseline.plain_message_t default;

-- The position of a reader (benchmarks/tailed.py).
create table baseline.plain_tail (upto bigint not null, events bigint not null);

insert into baseline.plain_tail values (0, 0);

do $$
begin
  for n in 0 .. 9 loop
    execute format(
      'create table baseline.plain_message_%s partition of baseline.plain_message_t for values from (%s) to (%s)',
      n, n * 1000000, (n + 1) * 1000000
    );
  end loop;
end
$$;
