package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Secrets are what deliveries are signed with: several for an endpoint, while one
// takes the place of another. They come with the endpoint, and expire by
// themselves; when they are deleted, by RotateSecret or Retain, changes nothing.
type Secrets interface {
	// RotateSecret adds a secret to an endpoint that is at FromVersion and lets
	// the others expire at ExpireAt, those that expire earlier excepted; what has
	// expired at Now is deleted. The version rises by one. ErrNotFound and
	// ErrConflict as for UpdateEndpoint.
	RotateSecret(ctx context.Context, p RotateSecretParams) (EndpointRow, error)
}

// SealedSecret is a signing secret as it rests in the database.
type SealedSecret struct {
	No        int // 1, 2, 3 … within the endpoint
	Sealed    []byte
	KeyID     string    // names the master key that sealed it
	ExpiresAt time.Time // zero: it does not
}

// RotateSecretParams are RotateSecret's.
type RotateSecretParams struct {
	Tenant      TenantNo
	ID          posthaste.ID
	FromVersion int
	Secret      SealedSecret // with the number above the highest
	ExpireAt    time.Time    // of the secrets before it
	Now         time.Time
}
