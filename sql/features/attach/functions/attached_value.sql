-- Return the expression of a column of an event, over a row r of an attached table. _is_copy: of a row that was there
-- before. Text is made by the output function of a type, never by a cast, which a user may have made (attach_rows.sql).
create or replace function gapless.attached_value(_made gapless.attached, _root oid, _column text, _is_copy boolean)
returns text
language plpgsql stable as $$
declare
  named text := (_made).map ->> _column;
  field text := 'r.' || quote_ident(named);
  own_unit text := format(
    'md5(%L || r.%I)::uuid', 'gapless attach ' || (_made).table_name || ' ', (_made).id_column
  );
  type oid;
begin
  select a.atttypid into type from pg_attribute a
  where a.attrelid = _root and a.attname = named and a.attnum > 0 and not a.attisdropped;
  if (_made).id_column = '' then
    raise exception 'the column of % is gone that gave its rows their order', (_made).table_name
      using errcode = 'GL400', hint = 'Attach it anew: gapless attach list says the commands.';
  end if;
  if named is not null and type is null then
    raise exception 'column "%" of % is gone, from which the % was copied',
      (select a.map ->> _column from gapless.attached a where a.attachment_id = (_made).attachment_id),
      (_made).table_name, _column
      using errcode = 'GL400', hint = 'Name another: gapless attach list says the command.';
  end if;
  if _column = 'payload' then
    return case
      when named is null then format(
        '(select row_to_json(d.*) from (select %s) d)', gapless.row_columns(_root, null)
      )
      when type in ('json'::regtype, 'jsonb'::regtype) then field || '::json'
      else format('gapless.as_json(%s)', field)
    end;
  elsif _column = 'headers' then
    return case
      when named is null then '''{}''::jsonb'
      else format('case when jsonb_typeof(%1$s::jsonb) = ''object'' then %1$s::jsonb else ''{}'' end', field)
    end || format(
      ' || jsonb_build_object(''attached'', jsonb_build_object('
      '''table'', %L, ''id'', r.%I, ''backfill'', %L::boolean))',
      (_made).table_name, (_made).id_column, _is_copy
    );
  elsif _column = 'transaction_id' then
    -- Rows of one transaction are a unit; for rows that were there before nothing else tells which those are.
    return case
      when named is null then case when _is_copy then own_unit else 'null::uuid' end
      else format(
        'coalesce(%s, %s)',
        case
          when type = 'uuid'::regtype then field
          else format('case when num_nulls(%1$s) = 0 then md5(concat(%1$s))::uuid end', field)
        end,
        case when _is_copy then own_unit else 'null' end
      )
    end;
  end if;
  return case
    when named is null then 'null::text'
    else format('case when num_nulls(%1$s) = 0 then concat(%1$s) end', field)
  end;
end
$$;
