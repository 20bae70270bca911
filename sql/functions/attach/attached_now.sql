-- An attachment with its columns as they are called now; one that is gone is called what it was.
create or replace function gapless.attached_now(_made gapless.attached, _root oid)
returns gapless.attached
language plpgsql
stable
as $$
declare
  names jsonb := (
    select jsonb_object_agg(c.what, coalesce(c.now, c.name)) from gapless.attached_columns(_made, _root) c
  );
begin
  _made.id_column := names ->> 'id';
  _made.map := names - 'id';
  return _made;
end
$$;
