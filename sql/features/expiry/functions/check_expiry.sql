-- Raise GL400 unless a group, or a subscription, may expire after that; null: never. what: its name for the message.
create or replace function gapless.check_expiry(_what text, _expires_after interval) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if extract(epoch from _expires_after) not between 60 and 315576000 then
    raise exception '% expires after 1 minute to 10 years, not %', _what, _expires_after using errcode = 'GL400';
  end if;
end
$$;
