-- Who a supervisor is connected as: one whose role was taken its grants can write nothing, so others find
-- out why it does not go on.

alter table gapless.member add column role text;
alter table gapless.member alter column role set default session_user;

comment on column gapless.member.role is 'The role it joined as; null: it joined before that was written down.';
