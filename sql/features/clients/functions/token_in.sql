-- Return a client's token, for programs that also have a group and a member. Raises GL404 when it belongs to others. A
-- member that is gone is unknown here: client_of() raises the error.
create or replace function gapless.token_in(_token text, _group_id text, _member_id text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  if substring(_token from 4 for 32) is distinct from lower(replace(_member_id, '-', ''))
    or exists (
      select from gapless.member_group mg
      where replace(mg.member_id::text, '-', '') = substring(_token from 4 for 32) and mg.group_id <> _group_id
    )
  then
    raise exception 'the token is not of a member of group "%" that has this id', _group_id using errcode = 'GL404';
  end if;
  return _token;
end
$$;
