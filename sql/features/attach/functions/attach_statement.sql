-- Return the statement that publishes rows r of an attached table, and notes which event each became; _rows: its FROM
-- list. Names get into it quoted (%I), values quoted (%L).
-- attached_row has a row for each published one, once: a second copy fails, and is not published twice. The trigger
-- publishes rows that were inserted just now: an id that was there is used again (for example after a TRUNCATE …
-- RESTART IDENTITY), and its row is another one.
create or replace function gapless.attach_statement(_made gapless.attached, _root oid, _rows text, _is_copy boolean)
returns text
language sql stable as $$
  select 'with published as (insert into gapless.outbox_message_t '
    || '(topic_id, key, host_id, user_id, transaction_id, event_type, payload, headers) select '
    || (_made).topic_id || ', '
    || string_agg(gapless.attached_value(_made, _root, u.name, _is_copy), ', ' order by u.n)
    || ' from ' || _rows || format(' order by r.%I', (_made).id_column)
    || ' returning id, headers) insert into gapless.attached_row (attachment_id, source_id, message_id) select '
    || (_made).attachment_id || ', (p.headers #>> ''{attached,id}'')::bigint, p.id from published p'
    || case
      when not _is_copy then ' on conflict (attachment_id, source_id) do update set message_id = excluded.message_id'
      else ''
    end
  from unnest(array[
    'key', 'host_id', 'user_id', 'transaction_id', 'event_type', 'payload', 'headers'
  ]) with ordinality u (name, n)
$$;
