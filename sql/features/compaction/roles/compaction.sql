-- Grants of compaction. Only operators may switch it on or off; forget_latest() is a part of compact().
do $$
begin
  revoke execute on function gapless.set_compaction, gapless.forget_latest from gapless_consumer;
exception when undefined_object then
  null;    -- the roles could not be created (roles.sql)
end
$$;
