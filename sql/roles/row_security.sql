-- Functions with their owner's rights see all rows, or raise 42501. With row security forced on an owner that is no
-- superuser, they would not see hidden rows: they would drop chunks that are needed, or pass events. Triggers are left
-- out, because other roles' statements fire them, and may count on row security.
do $$
declare
  each regprocedure;
begin
  for each in
    select p.oid from pg_proc p
    where p.pronamespace = 'gapless'::regnamespace and p.prosecdef and p.prorettype <> 'trigger'::regtype
      and pg_has_role(p.proowner, 'usage')
      and not 'row_security=off' = any (p.proconfig)
  loop
    execute format('alter function %s set row_security = off', each);
  end loop;
end
$$;
