package httpapi_test

import "testing"

// A key that would not deduplicate the request is refused, not ignored: a client that
// trusts it would create an object twice.
func TestIdempotencyKeyIsNeverIgnored(t *testing.T) {
	s := start(t)
	const key = "Idempotency-Key: k"
	for _, path := range []string{"/v1/endpoints", "/v1/sources", "/v1/tenants"} {
		s.post(path, `{}`, key).problem(422, "unsupported", "Idempotency-Key")
	}
	s.post("/v1/events/evt_x/resend", `{}`, key).problem(422, "unsupported", "Idempotency-Key")
	s.post("/v1/endpoints/ep_x/rotate-secret", `{}`, key).problem(422, "unsupported", "Idempotency-Key")
	s.post("/v1/events?type=a.b", "x", key).want(202)
}
