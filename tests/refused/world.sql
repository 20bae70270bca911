select gapless.create_topic(name, partitions)
from (values ('orders', 1), ('other', 2), ('outbox', 1), ('latest', 1), ('told', 1), ('checked', 1))
  as t (name, partitions);
select gapless.set_compaction('latest', true);
select gapless.set_direct('told');
select gapless.set_schema('checked', '{"type": "object", "properties": {"total": {"type": "number"}}}', 'placed');
select gapless.create_group(g, t, mode => m) from (values
  ('billing', 'orders', 'ordered'), ('letters', 'orders', 'queue'), ('mail', 'orders', 'ordered'),
  ('kept', 'orders', 'ordered'), ('both', 'orders', 'ordered'), ('both', 'other', 'ordered'),
  ('told', 'told', 'ordered'), ('resting', 'orders', 'ordered')
) as v (g, t, m);
select gapless.pause('resting');
select gapless.set_filter('kept', 'orders', '{a*}');
select gapless.subscribe('mail', 'orders', 'anna', '{"who": "$.who"}', '{"who": 1}');
select gapless.add_schedule('nightly', 'orders', cron => '0 3 * * *');
select gapless.add_webhook('shop', 'orders', 'https://example.com/in', '{env:HOOK}');
select gapless.add_webhook('ours', 'other', 'https://example.com/in', '{env:HOOK}', shared => true);
create table public.t (id int primary key, key text, n numeric unique, nullable int unique, j jsonb);
create table public.pair (a int, b int, primary key (a, b));
create table public.keyless (id int);
create table public.named (id text primary key, key text);
create view public.v as select 1 as id;
create materialized view public.m as select 1 as id;
create sequence public.s;
create unlogged table public.u (id int primary key);
create table public.p (id int primary key) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (9);
create table public.parent (id int primary key, key text);
create table public.child () inherits (public.parent);
create table public.orderless (id int primary key, n int);
create table public.places (group_id text, next_offset bigint);
create extension if not exists file_fdw with schema public;
create server files foreign data wrapper file_fdw;
create foreign table public.f (id int) server files options (filename '/dev/null');
create table public.pf (id int) partition by range (id);
create foreign table public.pf1 partition of public.pf for values from (0) to (9)
  server files options (filename '/dev/null');
insert into public.t values (1, 'k', 1, null, '1');
create table public.caught (id int primary key);
select gapless.capture('public.caught', 'orders');
create table public.busy (id int primary key, key text);
