-- Return an event's values at these paths (subscription_form), as a JSON array in their order; null for a missing one.
create or replace function gapless.match_values(
  _paths text[], _payload jsonb, _event_type text, _key text, _host_id text, _user_id text
) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select coalesce(jsonb_agg(
    case p.path
      when 'event_type' then to_jsonb(_event_type)
      when 'key' then to_jsonb(_key)
      when 'host_id' then to_jsonb(_host_id)
      when 'user_id' then to_jsonb(_user_id)
      else _payload #> string_to_array(substr(p.path, 3), '.')
    end
    order by p.n
  ), '[]')
  from unnest(_paths) with ordinality as p (path, n)
$$;
