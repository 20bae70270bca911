-- As it was at 0013 and 0014, this view depended on a function that 0016 drops: whoever was there could not go on. It
-- came after 0016, and bears this number to be applied before it. The view stays, for what people made of it, empty
-- until its file comes in this transaction. Where it is another one, or none, nothing is done.
do $$
begin
  if exists (
    select from pg_catalog.pg_depend d
    join pg_catalog.pg_rewrite r on r.oid = d.objid
    where d.classid = 'pg_rewrite'::regclass and r.ev_class = to_regclass('gapless.squatters')
      and d.refclassid = 'pg_proc'::regclass
      and d.refobjid = to_regprocedure('gapless.acquire(text, int, int, uuid, uuid)')
  ) then
    create or replace view gapless.squatters as
    select null::int as pid, null::name::text as role, null::text as holds, null::boolean as granted
    where false;
  end if;
end
$$;
