-- Return the time at which an event is to be delivered, from its publisher's arguments; null: now. All events of a
-- transaction with the same arguments have the same time: it counts from the beginning of the transaction, and so does
-- "now". Raises 22023 for an invalid time.
create or replace function gapless.deliver_time(_at timestamptz, _in interval) returns timestamptz
language plpgsql stable as $$
declare
  -- A delay that is too long is not added: PostgreSQL's error names no field.
  due timestamptz := coalesce(_at, case when _in between '0' and '8000 years' then now() + _in end);
begin
  if _at is not null and _in is not null then
    raise exception 'deliver_at and deliver_in: give one of the two'
      using errcode = 'invalid_parameter_value';
  end if;
  if _in < interval '0' then
    raise exception 'deliver_in % is negative: give 0 or more, or leave it out', _in
      using errcode = 'invalid_parameter_value';
  end if;
  if due not between '1970-01-01 00:00+00' and '9000-01-01 00:00+00' or _in > '8000 years' then
    raise exception '% % is no time to deliver at: give one from 1970 to 9000',
      case when _at is null then 'deliver_in' else 'deliver_at' end, coalesce(_at::text, _in::text)
      using errcode = 'invalid_parameter_value';
  end if;
  return case when due > now() then due end;
end
$$;
