-- Tell whether data were restored over the rows that gapless init had made: its row of the sequencer, which stands for
-- no run yet, is there, and beside it are runs of another cluster, offsets, or events of foreign transactions. Looks at
-- all events while there was no run.
create or replace function gapless.is_overlaid() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (
    select from gapless.sequencer i, pg_control_system() c
    where i.run = 0 and i.system_identifier = c.system_identifier and i.next_floor_xid::xid = i.xmin
      and case
        when exists (select from gapless.sequencer n where n.run > 0) then
          exists (select from gapless.sequencer n where n.system_identifier <> c.system_identifier)
        else exists (select from gapless.log_segment) or exists (
          select from gapless.outbox_message_t o
          where not gapless.is_own_xid(o.xid, o.xmin, i.next_floor_xid::xid)
        )
      end
  )
$$;
