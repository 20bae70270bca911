-- Rows that expiry always has (as consume/parts/needed_rows.sql).
values ('expiry_clock', null, null)
