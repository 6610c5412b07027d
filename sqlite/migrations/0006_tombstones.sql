-- The purge walks deleted endpoints in the order of their deletion, page by page, also
-- where a tenant's deletion took a million at once.
DROP INDEX endpoints_deleted;
CREATE INDEX endpoints_deleted ON endpoints (deleted_at, no) WHERE deleted_at <> 0;
