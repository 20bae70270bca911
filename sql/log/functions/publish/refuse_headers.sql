-- Refuse headers that are no JSON object: a handler could not read them. For a plain INSERT or COPY the constraint
-- headers_are_an_object refuses them.
create or replace function gapless.refuse_headers(_headers jsonb) returns void
language plpgsql as $$
begin
  raise exception 'headers are a JSON object, not %', left(_headers::text, 100)
    using errcode = 'invalid_parameter_value';
end
$$;
