-- The purge walks deleted endpoints in the order of their deletion, page by page, also
-- where a tenant's deletion took a million at once.
drop index endpoints_deleted;
create index endpoints_deleted on endpoints (deleted_at, no) where deleted_at <> 0;
