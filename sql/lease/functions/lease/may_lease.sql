-- Tell whether a role may take leases: it, or a role that it can change to, may call acquire().
create or replace function gapless.may_lease(role oid) returns boolean
language sql stable as $$
  select exists (
    select from pg_catalog.pg_proc p
    left join lateral pg_catalog.aclexplode(p.proacl) x on x.privilege_type = 'EXECUTE'
    where p.oid = 'gapless.acquire(text, int, int, uuid, uuid)'::regprocedure
      and case
        when pg_catalog.pg_has_role(may_lease.role, p.proowner, 'member') then true
        when x.grantee = 0 then true
        else pg_catalog.pg_has_role(may_lease.role, x.grantee, 'member')
      end
  )
$$;
