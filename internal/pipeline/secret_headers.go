package pipeline

import (
	"fmt"
	"maps"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// headerContext binds a sealed header to its place, so that it can't be moved to
// another endpoint or name.
func headerContext(id posthaste.ID, name string) string {
	return fmt.Sprintf("endpoint-header/%s/%s", id.Print(posthaste.KindEndpoint), strings.ToLower(name))
}

// sealHeaders seals the secret headers of an endpoint that are not sealed yet. A value
// that is the same as in before keeps its sealed form: then nothing has changed.
func (p *Pipeline) sealHeaders(e *posthaste.Endpoint, before map[string]string) error {
	sealed := maps.Clone(e.SecretHeaders)
	for name, value := range sealed {
		if posthaste.IsSealedHeader(value) {
			continue
		}
		fingerprint := p.keyring.Fingerprint([]byte(value))
		if old, ok := posthaste.ParseSealedHeader(before[name]); ok && old.Fingerprint == fingerprint {
			if text, err := p.keyring.Open(headerContext(e.ID, name), old.Sealed); err == nil && string(text) == value {
				sealed[name] = before[name]
				continue
			}
		}
		bytes, err := p.keyring.Seal(headerContext(e.ID, name), []byte(value))
		if err != nil {
			return fmt.Errorf("seal the endpoint's header %s: %w", name, err)
		}
		sealed[name] = posthaste.SealedHeader{KeyID: p.keyring.KeyID(), Fingerprint: fingerprint, Sealed: bytes}.String()
	}
	e.SecretHeaders = sealed
	return nil
}

// openHeaders returns an endpoint's definition with its secret headers as they are sent.
func (p *Pipeline) openHeaders(row store.EndpointRow) (posthaste.Definition, error) {
	d := row.Definition
	d.SecretHeaders = maps.Clone(d.SecretHeaders)
	for name, value := range d.SecretHeaders {
		sealed, ok := posthaste.ParseSealedHeader(value)
		if !ok {
			return d, fmt.Errorf("open the endpoint's header %s: it is not sealed", name)
		}
		text, err := p.keyring.Open(headerContext(row.ID, name), sealed.Sealed)
		if err != nil {
			return d, fmt.Errorf("open the endpoint's header %s, sealed with key %s: %w", name, sealed.KeyID, err)
		}
		d.SecretHeaders[name] = string(text)
	}
	return d, nil
}
