-- Close the chain: from here on, until COMMIT, every published event is known to come from one unit.
create or replace function gapless.close_chain(_units int) returns void
language plpgsql as $$
begin
  if current_setting('gapless.chain', true) = 'untold' then
    perform gapless.refuse_untold();
  end if;
  perform set_config('gapless.chain', 'closed', true),
    case when _units > 1 then set_config('gapless.cause', '', true) end;
end
$$;
