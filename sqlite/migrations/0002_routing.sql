-- The version of the tenant's routing that a change led to: a replica that remembers it
-- can ask whether this database ever had it.
ALTER TABLE endpoint_versions ADD COLUMN routing_version INTEGER NOT NULL DEFAULT 0;

-- Loads go page by page: changes by version, living endpoints by number.
DROP INDEX endpoints_routing;
CREATE INDEX endpoints_routing ON endpoints (tenant, routing_version, no);
CREATE INDEX endpoints_living_no ON endpoints (tenant, no) WHERE deleted_at = 0;
-- For heartbeats, which ask for what changed lately, and for the purge of tombstones.
CREATE INDEX tenants_routing ON tenants (routing_version);
CREATE INDEX endpoints_deleted ON endpoints (deleted_at) WHERE deleted_at <> 0;
