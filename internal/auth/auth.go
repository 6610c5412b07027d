// Package auth tells who sent a request to the API, from its key, and which
// tenant the request acts for.
package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// HeaderTenant names the tenant that an admin key acts for.
const HeaderTenant = "Posthaste-Tenant"

// AllTenants stands in HeaderTenant for all of them. Only an admin may read them
// all at once, and nobody changes anything for them all.
const AllTenants = "*"

// KeyPrefix begins every key that Posthaste makes, so that a scanner of leaked
// secrets can tell one.
const KeyPrefix = "phk_"

// MinKeyBytes is the length that a key chosen by the operator must have at least.
const MinKeyBytes = 16

// Hash is the SHA-256 of a key. Keys are random and long, so a fast hash without
// salt is enough: there is no dictionary to try.
type Hash [sha256.Size]byte

// NewKey returns a new random key: "phk_" and 40 characters of hex, 160 bits.
func NewKey() string {
	var raw [20]byte
	rand.Read(raw[:]) // never fails since Go 1.24
	return KeyPrefix + hex.EncodeToString(raw[:])
}

// HashKey returns the hash under which a key is known.
func HashKey(key string) Hash {
	var buf [128]byte // every request comes by here: no garbage for the usual key
	return sha256.Sum256(append(buf[:0], key...))
}

// CheckKey returns what is wrong with a key chosen by the operator, or nil. The
// error never holds the key.
func CheckKey(key string) error {
	if len(key) < MinKeyBytes {
		return fmt.Errorf("check the key: it has %d bytes, want %d at least", len(key), MinKeyBytes)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return errors.New("check the key: it has a space, a control or a non-ASCII character, which cannot be sent in a header")
		}
	}
	return nil
}

// Auth knows the keys. Safe for concurrent use.
type Auth struct{ admin Hash }

// New returns an Auth that knows one admin key, by its hash. The zero hash is no
// key's: with it, every request is refused.
func New(admin Hash) *Auth { return &Auth{admin: admin} }

// Principal is who sent a request.
type Principal struct {
	Name  string // for logs: "admin", later a key's id
	Admin bool   // may act for every tenant, and create them
	own   string // the tenant of a tenant key
}

// Identify reads the Authorization header. Any failure is a *posthaste.Error
// with CodeUnauthorized. It says no more than whether a key was given: how a
// key is wrong is nobody's business.
func (a *Auth) Identify(h http.Header) (Principal, error) {
	values := h["Authorization"]
	if len(values) == 0 {
		return Principal{}, refuse("the request has no key")
	}
	scheme, key, found := strings.Cut(values[0], " ")
	if len(values) > 1 || !found || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, refuse("the Authorization header is not one bearer key")
	}
	sum := HashKey(strings.TrimLeft(key, " "))
	// The comparison of hashes leaks nothing of the key even if its time did
	// vary, and it does not.
	if subtle.ConstantTimeCompare(sum[:], a.admin[:]) != 1 || a.admin == (Hash{}) {
		return Principal{}, refuse("the key is not known")
	}
	return Principal{Name: "admin", Admin: true}, nil
}

func refuse(message string) error {
	return &posthaste.Error{
		Code: posthaste.CodeUnauthorized, Message: message,
		Hint: `send the header "Authorization: Bearer KEY"; the admin key is printed when the server starts for the first time`,
	}
}

// Tenant returns the name of the tenant that a request acts for: a tenant key's
// own, and for an admin the one that the header Posthaste-Tenant names, else
// "default". Whether that tenant exists is for the caller to find out, and
// whether the request may be for [AllTenants].
//
// An empty header is refused rather than taken as "default": it is what a script
// sends whose variable is not set, and its events would end up with another tenant.
func (p Principal) Tenant(h http.Header) (string, error) {
	values := h[HeaderTenant]
	if !p.Admin {
		if len(values) > 0 && (len(values) > 1 || values[0] != p.own) {
			return "", &posthaste.Error{
				Code: posthaste.CodeForbidden, Message: "the key acts for its own tenant only",
				Hint: "leave the header " + HeaderTenant + " out",
			}
		}
		return p.own, nil
	}
	switch {
	case len(values) == 0:
		return posthaste.TenantDefault, nil
	case len(values) > 1:
		return "", badTenant("is given more than once", "name one tenant")
	case values[0] == "":
		return "", badTenant("is empty", `name a tenant, or leave the header out to act for "default"`)
	}
	return values[0], nil
}

func badTenant(message, hint string) error {
	return posthaste.Invalid([]posthaste.Problem{{Field: HeaderTenant, Message: message, Hint: hint}})
}
