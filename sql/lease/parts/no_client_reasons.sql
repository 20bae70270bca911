-- Groups that clients cannot serve, and why, for people (no_client_reason.sql). No room of the core has one: this says
-- the columns.
select null::text as group_id, null::text as reason where false
