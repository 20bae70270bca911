-- Raise GL400 unless the compiled condition uses only operators and functions of pg_catalog that are immutable, or
-- stable and read nothing but their arguments (and the time). It checks the server's result: the parsed body of the
-- function, and its dependencies. digest: of a function that was created in this transaction.
create or replace function gapless.check_condition(_digest uuid) returns void
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  maker oid;
  body text;
  wrong text;
begin
  select p.oid, p.prosqlbody::text into strict maker, body
  from pg_proc p
  where p.pronamespace = 'gapless'::regnamespace and p.proname = 'condition_' || replace(_digest::text, '-', '');

  -- Allowed kinds of nodes; all others are refused, also new ones of a later server. MUST have no SUBLINK, AGGREF,
  -- WINDOWFUNC, NAMEDARGEXPR (a name of the user's in the text of the tree), XMLEXPR.
  select string_agg(distinct m[1], ', ') into wrong
  from regexp_matches(body, E'\\{([A-Z]+)', 'g') m
  where m[1] <> all (array[
    'QUERY', 'FROMEXPR', 'TARGETENTRY', 'BOOLEXPR', 'OPEXPR', 'FUNCEXPR', 'CONST', 'PARAM', 'FIELDSELECT',
    'RELABELTYPE', 'COERCEVIAIO', 'ARRAYCOERCEEXPR', 'SCALARARRAYOPEXPR', 'DISTINCTEXPR', 'NULLIFEXPR', 'NULLTEST',
    'BOOLEANTEST', 'CASE', 'CASEEXPR', 'WHEN', 'CASEWHEN', 'CASETESTEXPR', 'ARRAY', 'ARRAYEXPR', 'COALESCE',
    'COALESCEEXPR', 'MINMAX', 'MINMAXEXPR', 'SUBSCRIPTINGREF', 'COLLATEEXPR', 'SQLVALUEFUNCTION', 'JSONISPREDICATE'
  ]);
  if body like '%:hasSubLinks true%' or (select count(*) from regexp_matches(body, E'\\{QUERY', 'g')) <> 1 then
    raise exception 'has no subqueries' using errcode = 'GL400';
  end if;
  if wrong is not null then
    raise exception 'is an expression over e and s, and not %', lower(wrong) using errcode = 'GL400';
  end if;

  select string_agg(distinct pg_describe_object(d.refclassid, d.refobjid, 0), ', ') into wrong
  from pg_depend d
  where d.classid = 'pg_proc'::regclass and d.objid = maker
    and (d.refclassid, d.refobjid) not in (
      ('pg_namespace'::regclass, 'gapless'::regnamespace::oid),
      ('pg_type'::regclass, 'gapless.condition_event'::regtype::oid),
      ('pg_type'::regclass, 'gapless.condition_subscription'::regtype::oid),
      ('pg_class'::regclass, 'gapless.condition_event'::regclass::oid),
      ('pg_class'::regclass, 'gapless.condition_subscription'::regclass::oid)
    );
  if wrong is not null then
    raise exception 'uses nothing but what PostgreSQL comes with, and not %', wrong using errcode = 'GL400';
  end if;

  select string_agg(distinct format_type(t.oid, null), ', ') into wrong
  from regexp_matches(body, E'type (\\d+)', 'g') m
  join pg_type t on t.oid = m[1]::oid
  where t.typname ~ '^_?(reg[a-z]+|xml)$' or (t.typtype = 'p' and t.typname <> 'anyarray');
  if wrong is not null then
    raise exception 'has no values of type %', wrong using errcode = 'GL400';
  end if;

  select string_agg(distinct p.proname, ', ') into wrong
  from regexp_matches(body, E':(?:funcid|opfuncid) (\\d+)', 'g') m
  left join pg_proc p on p.oid = m[1]::oid
  where p.oid is null or p.pronamespace <> 'pg_catalog'::regnamespace or p.prokind <> 'f' or p.proretset
    or p.provolatile = 'v'
    or p.proname in (    -- a gigabyte in a word, or functions that multiply sizes: no time limit acts within one call
      'repeat', 'lpad', 'rpad', 'array_fill', 'format', 'replace', 'regexp_replace', 'array_replace',
      'array_to_string', 'concat_ws', 'bpchar', 'bit', 'varbit'
    )
    or p.provolatile = 's'
      and p.proname <> all (array[
        'now', 'transaction_timestamp', 'statement_timestamp', 'date_part', 'extract', 'date_trunc', 'timezone', 'age',
        'to_char', 'to_date', 'to_timestamp', 'to_number', 'concat', 'to_json', 'to_jsonb',
        'jsonb_build_object', 'jsonb_build_array', 'json_build_object', 'json_build_array', 'array_to_json',
        'jsonb_path_exists_tz', 'jsonb_path_match_tz', 'jsonb_path_query_first_tz'
      ])
      and not exists (select from pg_operator o where o.oprcode = p.oid)
      and not exists (select from pg_cast c where c.castfunc = p.oid);
  if wrong is not null then
    raise exception 'may not call %', wrong using errcode = 'GL400';
  end if;
end
$$;
