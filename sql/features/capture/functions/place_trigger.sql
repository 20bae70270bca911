-- Create one trigger of a capture; _is_there: in the place of another capture's. A part of place_capture().
create or replace function gapless.place_trigger(
  _schema name, _table name, _operation text, _is_there boolean, _capture_id text, _place text
) returns void
language plpgsql as $$
begin
  if _is_there then
    execute format('drop trigger %I on %I.%I', 'gapless_capture_' || _operation, _schema, _table);
  end if;
  execute format(
    'create trigger %I after %s on %I.%I %s for each statement execute function gapless.capture_rows(%L, %L)',
    'gapless_capture_' || _operation,
    _operation,
    _schema,
    _table,
    case _operation
      when 'insert' then 'referencing new table as new_rows'
      when 'update' then 'referencing old table as old_rows new table as new_rows'
      when 'delete' then 'referencing old table as old_rows'
      else ''
    end,
    _capture_id,
    _place
  );
exception
  when duplicate_object then
    raise exception '%.% has got a trigger gapless_capture_% just now: gapless capture lists the captured tables',
      _schema, _table, _operation
      using errcode = 'GL409';
end
$$;
