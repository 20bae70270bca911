-- A handler's changes of session settings must reach neither gapless's own statements nor the next unit. A ROLLBACK
-- undoes them. So a COMMIT is refused when the session is not as it was before the first handler ran; the units are
-- handled once more, and from then on the session is reset after each of them (supervisor/gapless/consume/session.py).

-- Return the examined settings as one text. Neither all settings (that takes longer than a small batch) nor those that
-- affect only speed: it covers the end of statements and sessions, the role, the meaning of names, and how values are
-- written and read.
create or replace function gapless.settings_in_force() returns text
language sql stable as $$
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
