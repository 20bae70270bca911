-- Return the highest present id, and the transactions that may still insert lower ones: those that have written to the
-- table. Once they have ended, a missing id below the bound was rolled back, and is a gap for good. A bound that is
-- null: there is no row, or the trigger copies by now.
-- MUST be two statements in this order: an id up to the bound was drawn before the writers are read, by a transaction
-- that had locked the table.
create or replace function gapless.attach_bound(_attachment_id int, out bound bigint, out writers text[])
language plpgsql volatile
set row_security = off as $$
declare
  made gapless.attached := gapless.require_attachment(_attachment_id);
begin
  if made.live_ts is not null then
    return;
  end if;
  execute format('select max(r.%I) from only %s r', made.id_column, made.table_id::regclass) into bound;
  writers := gapless.writers_of(made.table_id);
end
$$;
