-- name: standing
-- Whether the schema is one of ours, and whether it is empty, or not there at all.
select
  (
    select count(*) = 3 from pg_attribute a
    where a.attrelid = to_regclass('gapless.migration') and a.attname in ('kind', 'name', 'digest')
  ) as is_ours,
  not exists (
    select from pg_depend d
    where d.refclassid = 'pg_namespace'::regclass and d.refobjid = to_regnamespace('gapless') and d.deptype = 'n'
  ) as is_empty

-- name: create_schema
do $$
begin
  if to_regclass('gapless.migration') is null then
    create schema if not exists gapless;
    create table gapless.migration (
      kind text not null,
      name text not null,
      digest text not null,
      applied_ts timestamptz not null default now(),
      primary key (kind, name)
    );
  end if;
end
$$;

-- name: lock_migrations
-- One migrates at a time; the others wait, then find nothing to do. Not an advisory lock: those anybody
-- may take (I11).
lock table gapless.migration in exclusive mode;

-- name: prepare_migrations
-- Bodies are not checked while functions that call each other arrive in the order of their names.
select set_config('check_function_bodies', 'off', true),
  set_config('client_min_messages', 'warning', true);

-- name: applied
select m.kind, m.name, m.digest from gapless.migration m;

-- name: record
insert into gapless.migration (kind, name, digest)
values (%(kind)s, %(name)s, %(digest)s)
on conflict (kind, name) do update set digest = excluded.digest, applied_ts = now();

-- name: drop_schema
drop schema if exists gapless cascade;
