-- Reset a session to its opening state, and then to these values. The caller has reset the role and statement_timeout:
-- a handler may have set either, and neither may be in the way here. Gapless's own marks stay.
create or replace function gapless.restore_settings(_names text[], _vals text[]) returns void
language plpgsql as $$
declare
  marks text[] := array[
    'gapless.finished', 'gapless.chain', 'gapless.cause', 'gapless.correlation'
  ];
  kept text[];
begin
  kept := array(
    select coalesce(current_setting(m.name, true), '')
    from unnest(marks) with ordinality as m (name, n)
    order by m.n
  );
  reset all;
  perform set_config(s.name, s.value, false) from unnest(_names, _vals) as s (name, value);
  perform set_config(m.name, m.value, true) from unnest(marks, kept) as m (name, value);
end
$$;
