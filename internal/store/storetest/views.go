package storetest

import "slices"

// Views are the views for people and their columns, the same on every database.
var Views = map[string][]string{
	"v_deliveries": deliveryColumns,
	"v_dead":       append(slices.Clone(deliveryColumns), "last_status_code", "last_error"),
	"v_attempts": {
		"delivery_id", "number", "tenant", "started_at", "duration_ms", "outcome", "late", "cause", "status_code", "error", "replica",
		"endpoint_version", "response_body", "uuid", "sent_twice",
	},
}

var deliveryColumns = []string{
	"id", "event_id", "endpoint_id", "tenant", "type", "status", "reason", "last_outcome", "attempts", "failures",
	"run_at", "expires_at", "next_attempt_at", "finished_at", "owner", "uuid",
}
