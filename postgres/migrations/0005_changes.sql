-- A restored dump brings the transaction numbers of another cluster, so no key may rest
-- on them. Old rows are found by their time.
alter table changes drop constraint changes_pkey;
create index changes_by_tx on changes (xid, kind);
create index changes_by_time on changes (at);

-- A row of kind 0 marks since when the table has not been emptied. A reader that finds a
-- mark which it has not seen, or none, may have missed changes.
create index changes_marks on changes (kind) where kind = 0;
insert into changes (kind, at, tenants, ids)
values (0, (extract(epoch from clock_timestamp()) * 1000000)::int8, '{}', '{}');
