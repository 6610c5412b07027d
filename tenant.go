package posthaste

import (
	"regexp"
	"time"
)

// Tenant is one customer of the operator; it owns endpoints and events.
type Tenant struct {
	Name      string            // its key; never changes, and is never given to another
	UID       string            // the operator's own id for it; "" for none
	Metadata  map[string]string // the operator's own words on it
	Version   int               // rises with every change
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt time.Time // zero unless deleted; a tombstone stays, and its history with it
}

// The tenants that exist from the start. TenantOperator holds the operator's
// own endpoints and operational events.
const (
	TenantDefault  = "default"
	TenantOperator = "operator"
)

// TenantAll owns the endpoints that get the events of every tenant: handlers of
// a program. It is no tenant otherwise: it takes no events, no request can name it
// to change something, and lists of tenants leave it out. Nobody can make one of
// its name, which [ValidateTenantName] refuses.
const TenantAll = "*"

var tenantName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// ValidateTenantName returns what is wrong with a tenant's name, or nil.
func ValidateTenantName(name string) []Problem {
	if tenantName.MatchString(name) {
		return nil
	}
	return []Problem{{
		Field: "name", Message: "is not a tenant name",
		Hint: "1 to 64 of a-z A-Z 0-9 . _ -, beginning with a letter or a digit",
	}}
}
