-- Return the statement that publishes the changes of a statement of that kind on a captured table; null: there is no
-- such capture. It reads the transition tables old_rows and new_rows. Names get into it quoted (%I), values quoted
-- (%L). An update pairs rows by their primary key. Where that changed, or the event's key did, it is a delete and an
-- insert, each with its own key; so are all updates of a table in which rows cannot be paired. A change of no captured
-- column publishes nothing. Deletes come first: they may free the key of an insert.
create or replace function gapless.capture_statement(_capture_id int, _table oid, _operation text) returns text
language plpgsql stable as $$
declare
  asked gapless.captured;
  root oid := coalesce(pg_partition_root(_table), _table);
  into_log text := 'insert into gapless.outbox_message_t (topic_id, key, event_type, payload) ';
  identity text;
  key text;
  -- Rows r of a transition table, and the expressions over them, d. Concatenated, never a template of format(): a name
  -- may hold a %.
  rows_of text;
  head text;
begin
  select c.* into asked from gapless.captured c where c.capture_id = _capture_id;
  if not found then
    return null;
  end if;
  if _operation = 'TRUNCATE' then
    return into_log || gapless.truncate_statement(asked.topic_id, root, _table);
  end if;
  identity := gapless.identity_of(root);
  key := gapless.captured_key(asked, root, identity);
  rows_of := ' r cross join lateral (select ' || gapless.captured_columns(asked, root) || ') d';
  into_log := into_log || 'select ' || asked.topic_id;
  if _operation = 'INSERT' then
    return into_log || ', ' || key || ', ''insert'', '
      || 'json_build_object(''op'', ''insert'', ''new'', row_to_json(d.*), ''old'', null) from new_rows' || rows_of;
  elsif _operation = 'DELETE' then
    return into_log || ', ' || key || ', ''delete'', '
      || 'json_build_object(''op'', ''delete'', ''new'', null, ''old'', row_to_json(d.*)) from old_rows' || rows_of;
  end if;
  head := '(select row_number() over () as place, ' || key || ' as key, row_to_json(d.*) as doc, ';
  return into_log || ', e.key, e.op, json_build_object(''op'', e.op, ''new'', e.new, ''old'', e.old) from '
    || head || coalesce(identity, 'concat(''o'', row_number() over ())') || ' as ident from old_rows' || rows_of
    || ') o full join '
    || head || coalesce(identity, 'concat(''n'', row_number() over ())') || ' as ident from new_rows' || rows_of
    || ') n on n.ident = o.ident cross join lateral ('
    || 'select 0 as turn, ''delete'' as op, o.place, o.key, null::json as new, o.doc as old'
    || ' where o.key is not null and n.key is distinct from o.key'
    || ' union all select 1, ''update'', n.place, n.key, n.doc, '
    || case asked.old
      when 'all' then 'o.doc'
      when 'changed' then 'gapless.changed_columns(o.doc, n.doc)'
      else 'null'
    end
    || ' where n.key = o.key and n.doc::text <> o.doc::text'
    || ' union all select 2, ''insert'', n.place, n.key, n.doc, null'
    || ' where n.key is not null and n.key is distinct from o.key'
    || ') e order by e.turn, e.place';
end
$$;
