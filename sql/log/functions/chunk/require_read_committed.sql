-- Raise unless each statement of the caller sees earlier commits.
create or replace function gapless.require_read_committed(_caller text) returns void
language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'gapless.%() needs READ COMMITTED, not %: it decides by the present state',
      _caller, upper(current_setting('transaction_isolation'))
      using errcode = 'invalid_transaction_state';
  end if;
end
$$;
