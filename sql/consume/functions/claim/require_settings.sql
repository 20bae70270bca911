-- Raise GL005 unless the settings are as before; null: the earlier settings are unknown.
-- plan: inlined, with the functions that it calls; in PL/pgSQL it would cost as much again.
create or replace function gapless.require_settings(_before text) returns text
language sql volatile as $$
  select case when _before <> gapless.settings_in_force() then gapless.refuse_settings() end
$$;
