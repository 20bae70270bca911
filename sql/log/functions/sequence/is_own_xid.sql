-- Tell whether a row of outbox_message_t, by its xid and its xmin, comes from a transaction of this cluster that began
-- after another one, _since. xmin is the xid, or that of a savepoint; a restored row has the xmin of the COPY, and any
-- xid.
create or replace function gapless.is_own_xid(_xid xid8, _xmin xid, _since xid) returns boolean
language sql stable as $$
  select age(_xid::xid) between age(_xmin) and age(_since) - 1
$$;
