-- Who has signed up, and the greeting that the handler wrote.
create table if not exists signup (
  signup_no int primary key generated always as identity,
  name text not null,
  greeting text
);
