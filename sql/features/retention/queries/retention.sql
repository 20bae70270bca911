-- name: retention_plan
-- returns: gapless.features.retention.chunks:Chunk
select p.chunk, p.upto, p.events, p.bytes, p.newest_ts as newest, p.goes, p.reasons, p.is_behind
from gapless.retention_plan() p
order by p.upto

-- name: close_chunks
select gapless.close_chunks()

-- name: drop_chunk
select gapless.drop_chunk()

-- name: forget_segments
select gapless.forget_segments()

-- name: empty_default_chunk
select gapless.empty_default_chunk()

-- name: drop_emptied_chunks
select gapless.drop_emptied_chunks(%(patient)s)

-- name: turn_dedupe_slots
select gapless.turn_dedupe_slots()

-- name: purge_history
select letters + audits from gapless.purge_history(%(letters_s)s, %(audit_s)s)

-- name: retention
-- returns: gapless.features.retention.chunks:Retention
select extract(epoch from t.retention)::float8 as keep_s, t.archive, t.overrun
from gapless.topic t where t.name = %(name)s

-- name: set_retention
select gapless.set_retention(%(name)s, %(keep_s)s, %(archive)s, %(overrun)s)
