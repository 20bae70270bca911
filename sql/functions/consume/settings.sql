-- What a handler sets on the session it is given must reach neither our own statements nor the next unit.
-- A ROLLBACK undoes it. So a COMMIT is refused whose session is not as it was before the first handler ran;
-- the units are handled once more, and from then on the session is put back after each of them
-- (supervisor/gapless/consume/session.py).

-- The settings that are looked at, as one text. Neither all (that takes longer than a small batch) nor those
-- that only make things slower: what ends statements and sessions, who they are run as, what names mean, how
-- values are written and read.
create or replace function gapless.settings_in_force()
returns text
language sql
stable
as $$
  select pg_catalog.concat_ws(
    E'\n', session_user, current_user,
    pg_catalog.current_setting('search_path'),
    pg_catalog.current_setting('statement_timeout'),
    pg_catalog.current_setting('lock_timeout'),
    pg_catalog.current_setting('transaction_timeout', true),
    pg_catalog.current_setting('idle_in_transaction_session_timeout'),
    pg_catalog.current_setting('idle_session_timeout'),
    pg_catalog.current_setting('default_transaction_isolation'),
    pg_catalog.current_setting('default_transaction_read_only'),
    pg_catalog.current_setting('default_transaction_deferrable'),
    pg_catalog.current_setting('session_replication_role'),
    pg_catalog.current_setting('row_security'),
    pg_catalog.current_setting('synchronous_commit'),
    pg_catalog.current_setting('client_encoding'),
    pg_catalog.current_setting('timezone'),
    pg_catalog.current_setting('datestyle'),
    pg_catalog.current_setting('bytea_output')
  )
$$;

-- Raises GL005: the settings are not what they were.
create or replace function gapless.refuse_settings()
returns text
language plpgsql
as $$
begin
  raise exception 'a handler changed settings of the session it was given' using errcode = 'GL005';
end
$$;

-- Raises GL005 unless the settings are what they were; null: nobody knows what they were.
-- plan: inlined, with what it calls; in PL/pgSQL it would cost as much again.
create or replace function gapless.require_settings(before text)
returns text
language sql
volatile
as $$
  select case when before <> gapless.settings_in_force() then gapless.refuse_settings() end
$$;

-- Put a session back to where it was opened, and then to these values. The caller has reset who it is, and
-- statement_timeout: whatever a handler set, neither may be in the way here. Our own marks stay.
create or replace function gapless.restore_settings(names text[], vals text[])
returns void
language plpgsql
as $$
declare
  marks text[] := array[
    'gapless.finished', 'gapless.chain', 'gapless.cause', 'gapless.correlation'
  ];
  kept text[];
begin
  kept := array(
    select coalesce(current_setting(m.name, true), '')
    from unnest(marks) with ordinality as m (name, n)
    order by m.n
  );
  reset all;
  perform set_config(s.name, s.value, false) from unnest(names, vals) as s (name, value);
  perform set_config(m.name, m.value, true) from unnest(marks, kept) as m (name, value);
end
$$;
