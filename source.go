package posthaste

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Source is where a provider's webhooks come in: a URL of its own, and what is
// particular to the provider. What is secret about it is kept apart, sealed.
type Source struct {
	ID      ID  // random, for it stands in a public URL: see [NewSourceID]
	Version int // rises with every change
	SourceDefinition
	UID       string            // its owner's own id for it, unique among the tenant's; "" for none
	Metadata  map[string]string // its owner's own words on it; Posthaste reads none of them
	CreatedAt time.Time
	UpdatedAt time.Time
}

// SourceDefinition is the part of a source that its owner writes, without what is
// secret. Its JSON form is what the API takes and gives, and what is stored.
type SourceDefinition struct {
	Name         string            `json:"name" doc:"For people, 128 bytes at most"`
	Provider     string            `json:"provider" doc:"Who sends: stripe, github, meta … as in the reference"`
	Settings     map[string]string `json:"settings" doc:"What is particular to the provider, such as public_url or tolerance: see the reference. One that is secret, such as verify_token, is shown as ********"`
	MaxBodyBytes int               `json:"max_body_bytes" doc:"Of a delivery; larger ones are answered with 413. 1 to 33554432"`
}

// Limits of a source's definition.
const (
	MaxSourceNameBytes     = 128
	MaxSourceSettings      = 30
	MaxSourceSettingBytes  = 2 << 10
	MaxSourceSecrets       = 16
	MaxSourceSecretBytes   = 8192 // public keys and certificates are secrets too, as far as a source is concerned
	DefaultSourceBodyBytes = 8 << 20
	MaxSourceBodyBytes     = 32 << 20
)

// DefaultSourceDefinition returns the definition that the fields of a request are laid over.
func DefaultSourceDefinition() SourceDefinition {
	return SourceDefinition{Settings: map[string]string{}, MaxBodyBytes: DefaultSourceBodyBytes}
}

// NewSourceID returns a random id (a UUIDv4, RFC 9562): nobody can tell one
// source's URL from another's.
func NewSourceID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Validate returns everything that is wrong with a definition, each problem with
// the path of its field, but for what only its provider can judge.
func (d SourceDefinition) Validate() (problems []Problem) {
	if len(d.Name) > MaxSourceNameBytes || !isText(d.Name) {
		problems = append(problems, Problem{
			Field: "name", Message: "is too long or has a NUL in it", Hint: fmt.Sprintf("%d bytes of text at most", MaxSourceNameBytes),
		})
	}
	if d.Provider == "" {
		problems = append(problems, Problem{Field: "provider", Message: "is missing", Hint: "name who sends, such as stripe or github"})
	}
	if n := len(d.Settings); n > MaxSourceSettings {
		problems = append(problems, Problem{Field: "settings", Message: fmt.Sprintf("has %d entries", n), Hint: fmt.Sprintf("%d at most", MaxSourceSettings)})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		if value := d.Settings[name]; len(value) > MaxSourceSettingBytes || !isText(value) {
			problems = append(problems, Problem{
				Field: "settings." + truncate(name), Message: "is too long or not text", Hint: fmt.Sprintf("%d bytes of text at most", MaxSourceSettingBytes),
			})
		}
	}
	if d.MaxBodyBytes < 1 || d.MaxBodyBytes > MaxSourceBodyBytes {
		problems = append(problems, Problem{
			Field: "max_body_bytes", Message: fmt.Sprintf("is %d", d.MaxBodyBytes), Hint: fmt.Sprintf("1 to %d", MaxSourceBodyBytes),
		})
	}
	return problems
}

// ValidateSourceSecrets returns what is wrong with the secrets of a source, but
// for what only its provider can judge. No problem repeats a secret.
func ValidateSourceSecrets(field string, secrets []string) (problems []Problem) {
	if n := len(secrets); n > MaxSourceSecrets {
		return []Problem{{Field: field, Message: fmt.Sprintf("has %d entries", n), Hint: fmt.Sprintf("%d at most", MaxSourceSecrets)}}
	}
	for i, secret := range secrets {
		path := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case secret == "":
			problems = append(problems, Problem{Field: path, Message: "is empty", Hint: "leave it out"})
		case len(secret) > MaxSourceSecretBytes:
			problems = append(problems, Problem{Field: path, Message: "is too long", Hint: fmt.Sprintf("%d bytes at most", MaxSourceSecretBytes)})
		case slices.Contains(secrets[:i], secret):
			problems = append(problems, Problem{Field: path, Message: "stands there twice", Hint: "give it once"})
		}
	}
	return problems
}

// Rejection is a delivery to a source that was not taken, because who sent it
// could not be verified.
type Rejection struct {
	ID        ID
	Reason    string   // in a word, such as wrong_secret
	Detail    string   // what is wrong
	Hint      string   // the next step
	Method    string   // of the request
	Headers   []Header // as they came, credentials masked
	Body      []byte   // whole where it has MaxRejectionBodyBytes at most, else its first MaxShownBodyBytes
	BodyBytes int      // how many there were
}

// At returns when it came, in whole milliseconds.
func (r Rejection) At() time.Time { return r.ID.Time() }

// What is kept of the rejections of a source.
const (
	MaxRejections           = 100       // the newest
	MaxRejectionBodyBytes   = 256 << 10 // a body of that size is kept whole, so that it can be verified again
	MaxShownBodyBytes       = 8 << 10   // what is kept of a larger one, and what lists show
	MaxRejectionHeaderBytes = 8 << 10
	MaxRejectionTextBytes   = 2 << 10 // of Detail and of Hint
)
