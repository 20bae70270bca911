-- Return the table that a text names, as SQL spells it and by the caller's search path; null: there is none. Raises
-- GL400 for a text that cannot be a name.
create or replace function gapless.table_of(_source text) returns oid
language plpgsql stable as $$
begin
  return to_regclass(_source);
exception
  when syntax_error or invalid_name or feature_not_supported or invalid_parameter_value or name_too_long then
    raise exception '"%" is no name of a table: write it as SQL does, such as public.orders or public."Order Lines"',
      _source
      using errcode = 'GL400';
end
$$;
