-- Return an event type of a filter, in which * stands for any characters, as a pattern of LIKE.
create or replace function gapless.type_pattern(_event_type text) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
  select replace(replace(replace(replace(_event_type, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%')
$$;
