-- Reasons to keep a chunk, for people, each of a room that still needs its events: upto is the chunk's; is_behind as in
-- reasons_to_keep.sql. No room of the core has one: this says the columns.
select null::bigint as upto, null::text as reason, null::boolean as is_behind where false
