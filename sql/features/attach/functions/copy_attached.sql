-- Publish the next present rows of an attached table, in the order of their ids: at most _rows of them, none with an id
-- above the bound. Returns their number; 0: all are copied, or the trigger copies by now. The place moves in the same
-- transaction, so it may be killed and repeated. Reads with the rights of the caller.
-- lock: the attachment's row; two that copy are one after the other.
create or replace function gapless.copy_attached(_attachment_id int, _bound bigint, _rows int) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
set row_security = off set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres'
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  made gapless.attached;
  reached bigint;
  copied bigint;
begin
  perform from gapless.attached a where a.attachment_id = _attachment_id for update;
  made := gapless.require_attachment(_attachment_id);
  if made.live_ts is not null then
    return 0;
  end if;
  execute format(
    'select max(x.id) from (select r.%1$I as id from only %2$s r where r.%1$I > $1 and r.%1$I <= $2 '
    'order by r.%1$I limit $3) x', made.id_column, made.table_id::regclass
  ) into reached using made.copied_to, _bound, _rows;
  if reached is null then
    return 0;
  end if;
  execute gapless.attach_statement(
    made, made.table_id,
    format(
      'only %2$s r where r.%1$I > %3$L::bigint and r.%1$I <= %4$L::bigint',
      made.id_column, made.table_id::regclass, made.copied_to, reached
    ), true
  );
  get diagnostics copied = row_count;
  update gapless.attached a set copied_to = reached where a.attachment_id = _attachment_id;
  return copied;
end
$$;
