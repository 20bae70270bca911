-- Rows that dedupe always has (as consume/parts/needed_rows.sql).
values ('dedupe_state', null, null), ('dedupe_slot', null, null)
