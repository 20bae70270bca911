-- Return an attachment by its number, with its present table and columns. Raises GL404: it, or its table, is gone.
create or replace function gapless.require_attachment(_attachment_id int) returns gapless.attached
language plpgsql stable as $$
declare
  made gapless.attached;
  root oid;
begin
  select a.* into made from gapless.attached a where a.attachment_id = _attachment_id;
  if not found then
    raise exception 'there is no attachment %: somebody has removed it', _attachment_id using errcode = 'GL404';
  end if;
  root := gapless.attached_table(made);
  if root is null then
    raise exception '% is gone: gapless attach remove forgets it', made.table_name using errcode = 'GL404';
  end if;
  made := gapless.attached_now(made, root);
  made.table_id := root;
  return made;
end
$$;
