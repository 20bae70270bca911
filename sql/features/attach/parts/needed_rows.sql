-- Rows of attachments that others name (as consume/parts/needed_rows.sql).
values ('attached', 'attached_row', null), ('attached', 'attached_group', 'attachment_id')
