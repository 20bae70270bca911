-- Members of ordered groups that keep no session: programs in any language, over SQL or HTTP. What says that one
-- lives is its deadline alone.
alter table gapless.member
  add column kind text not null default 'supervisor',
  add column token_digest bytea,       -- of a client: SHA-256 of its secret
  add constraint member_kind check (kind in ('supervisor', 'client')),
  add constraint member_token check ((kind = 'client') = (token_digest is not null));

comment on column gapless.member.kind is
  'supervisor: present while its control session lives; client: joined with gapless.join(), gone at its deadline.';

-- Whose epoch a unit was handed out under, to a client: it alone may commit or reject it.
alter table gapless.delivery add column epoch bigint;
alter table gapless.dead_letter add column epoch bigint;

comment on column gapless.delivery.epoch is
  'Of a unit that a client has in hand: the epoch of the lease under which it was handed out.';
comment on column gapless.dead_letter.epoch is
  'Of a unit that was handed out to a client again: the epoch of the lease under which that was.';
