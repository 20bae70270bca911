-- From here on, until COMMIT, nothing is published that is not known to come of one unit.
-- plan: assigned, not performed: that would be a statement of the executor each, set up anew in each transaction.
create or replace function gapless.close_chain(_units int)
returns void
language plpgsql
as $$
declare
  told text;
begin
  if current_setting('gapless.chain', true) = 'untold' then
    perform gapless.refuse_untold();
  end if;
  told := set_config('gapless.chain', 'closed', true);
  if _units > 1 then
    told := set_config('gapless.cause', '', true);
  end if;
end
$$;
