-- Members of groups: supervisors, and clients that keep no session.

-- One row per running supervisor; a restart is a new member (never reuse an identity). A client lives until its
-- deadline, and nothing else shows that it does.
create table gapless.member (
  member_id uuid primary key,
  member_no int generated always as identity unique,  -- key of its presence lock
  name text not null,
  state text not null default 'active' check (state in ('active', 'draining')),
  capacity int check (capacity >= 0),
  beat bigint not null default 0,
  ttl interval not null,
  expires_at timestamptz not null,                    -- the database's clock, never a client's
  suspect_at timestamptz,
  suspect_beat bigint,
  backend_pid int not null,
  started_ts timestamptz not null default clock_timestamp(),
  -- The partitions that a worker serves over one session: the sessions of a fleet, and the view for people, depend on
  -- it.
  partitions_per_worker int not null default 1 check (partitions_per_worker >= 1),
  role text default session_user,
  sessions int not null default 2 check (sessions >= 0),
  kind text not null default 'supervisor',
  token_digest bytea,                                 -- of a client: SHA-256 of its secret
  polled_ts timestamptz,
  version text,                                       -- of gapless, for people; null: of a client, unknown
  python text,
  constraint member_kind check (kind in ('supervisor', 'client')),
  constraint member_token check ((kind = 'client') = (token_digest is not null))
) with (fillfactor = 50);

-- A member whose role lost its grants can write nothing, so others have to find out why it stands still.
comment on column gapless.member.role is 'The role it joined as.';
comment on column gapless.member.sessions is 'Sessions it takes for itself, beside those of its workers.';
comment on column gapless.member.kind is
  'supervisor: present while its control session lives; client: joined with gapless.join(), gone at its deadline.';
comment on column gapless.member.polled_ts is
  'Of a client: when it last polled, to a twentieth of its ttl. Null: never, or it is none.';

create table gapless.member_group (
  member_id uuid not null references gapless.member on delete cascade,
  group_id text not null,
  topic_id int not null,
  primary key (group_id, topic_id, member_id),
  foreign key (group_id, topic_id) references gapless.consumer_group
);

create index member_group_member on gapless.member_group (member_id);

-- Recently evicted members with the reason, for people: a member that leaves by itself is not here.
create table gapless.eviction (
  member_id uuid primary key,
  name text not null,
  reason text not null,
  evicted_ts timestamptz not null default clock_timestamp()
);
