-- The version of the tenant's routing that a change led to: a replica that remembers it
-- can ask whether this database ever had it.
alter table endpoint_versions add column routing_version int8 not null default 0;

-- Loads go page by page: changes by version, living endpoints by number.
drop index endpoints_by_routing;
create index endpoints_by_routing on endpoints (tenant, routing_version, no);
create index endpoints_living_by_no on endpoints (tenant, no) where deleted_at = 0;
-- For heartbeats, which ask for what changed lately, and for the purge of tombstones.
create index tenants_by_routing on tenants (routing_version);
create index endpoints_deleted on endpoints (deleted_at) where deleted_at <> 0;
