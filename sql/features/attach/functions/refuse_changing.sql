-- Raise GL400 for a table whose rows were updated or deleted: the log would have them as they were inserted, and a gap
-- in its ids may be a deleted row. By the server's statistics, which also count rolled-back changes.
create or replace function gapless.refuse_changing(_table oid, _despite_changes boolean) returns void
language plpgsql stable as $$
declare
  what text := case
    when pg_stat_get_tuples_updated(_table) + pg_stat_get_xact_tuples_updated(_table) > 0 then 'updated'
    when pg_stat_get_tuples_deleted(_table) + pg_stat_get_xact_tuples_deleted(_table) > 0 then 'deleted'
  end;
begin
  if what is not null and not coalesce(_despite_changes, false) then
    raise exception 'rows of % were %, and the log has a row as it was inserted: attach a table that only grows, or '
      'say --despite-changes if that is done only to rows that all have read', _table::regclass, what
      using errcode = 'GL400';
  end if;
end
$$;
