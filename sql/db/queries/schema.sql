-- name: standing
-- Whether the schema belongs to gapless, and whether it is empty, or does not exist.
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
-- One session migrates at a time; the others wait, then find nothing to do. Not an advisory lock, which any role may
-- take (I11).
lock table gapless.migration in exclusive mode;

-- name: prepare_migrations
-- Bodies are not checked while functions that call each other arrive in the order of their names.
select set_config('check_function_bodies', 'off', true),
  set_config('client_min_messages', 'warning', true);

-- name: applied
select m.kind, m.name, m.digest from gapless.migration m;

-- name: hidden_tables
-- Tables with row security that concerns this role or, in most functions of gapless, their owner; whether a policy says
-- which rows are visible, perhaps all: without one no row is. For a partition only its parent's policy counts.
select c.relname::text,
  exists (select from pg_policy p where p.polrelid = c.oid and p.polpermissive) as has_policies
from pg_class c
join pg_roles o on o.oid = c.relowner
where c.relnamespace = to_regnamespace('gapless') and c.relrowsecurity and not c.relispartition
  and (
    has_any_column_privilege(c.oid, 'select') and row_security_active(c.oid)
    or c.relforcerowsecurity and not (o.rolsuper or o.rolbypassrls)
  )
order by 1

-- name: record
insert into gapless.migration (kind, name, digest)
values (%(kind)s, %(name)s, %(digest)s)
on conflict (kind, name) do update set digest = excluded.digest, applied_ts = now();

-- name: relations
-- Tables and views in the schema, without chunks and other parts.
select c.relname from pg_class c
where c.relnamespace = to_regnamespace('gapless') and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and not exists (select from pg_inherits i where i.inhrelid = c.oid)
  and c.relname !~ '^outbox_message_[0-9]+_[0-9]+$'    -- view chunk_copy
order by c.relname

-- name: drop_schema
drop schema if exists gapless cascade;

-- name: has_table
select exists (
  select from pg_class c where c.relnamespace = to_regnamespace('gapless') and c.relname = %(table)s
)

-- name: sizes
-- Tables of the schema with their chunks: rows as the server's statistics know them, and bytes of the rows.
-- returns: gapless.ops.upgrade:TableSize
select w.name as "table",
  coalesce(
    sum(case when r.reltuples >= 0 then r.reltuples::bigint else pg_stat_get_live_tuples(r.oid) end), 0
  )::bigint as rows,
  coalesce(sum(pg_relation_size(r.oid)), 0)::bigint as bytes
from pg_class r
cross join lateral (select coalesce(pg_partition_root(r.oid), r.oid) as id) x
join pg_class t on t.oid = x.id
cross join lateral (select t.relname::text as name) w
where t.relnamespace = to_regnamespace('gapless') and r.relkind = 'r'
group by w.name

-- name: function_names
select coalesce(array_agg(distinct p.proname::text order by p.proname::text), '{}')
from pg_proc p where p.pronamespace = to_regnamespace('gapless')

-- name: drop_roles
-- Roles belong to the cluster: a role stays if it has members, or something elsewhere depends on it (another database,
-- another schema, a grant by a person). The creator of a role is its member by that alone (PostgreSQL 16).
do $$
declare
  known constant text[] := array[
    'gapless_operator', 'gapless_consumer', 'gapless_producer', 'gapless_condition'
  ];
  each text;
begin
  foreach each in array known loop
    if exists (
      select from pg_auth_members m join pg_roles r on r.oid = m.roleid join pg_roles w on w.oid = m.member
      where r.rolname = each and w.rolname <> all (known) and not m.admin_option
        and (each <> 'gapless_condition' or w.rolname <> current_user)    -- init granted it
    ) then
      continue;
    end if;
    begin
      execute format('drop role if exists %I', each);
    exception
      when insufficient_privilege or dependent_objects_still_exist then
        continue;
    end;
  end loop;
end
$$;

-- name: roles_left
select r.rolname::text from pg_roles r
where r.rolname in ('gapless_operator', 'gapless_consumer', 'gapless_producer', 'gapless_condition')
order by 1
