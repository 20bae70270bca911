-- Lock an attached table against writers until the transaction ends. With the rights of the caller.
-- lock: the table in share row exclusive mode: it waits for writers, and they wait for it.
create or replace function gapless.lock_attached(_attachment_id int) returns void
language plpgsql as $$
begin
  execute format(
    'lock table only %s in share row exclusive mode', (gapless.require_attachment(_attachment_id)).table_id::regclass
  );
end
$$;
