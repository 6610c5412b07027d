package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Limits of the rotation of secrets.
const (
	// MaxSecrets is how many secrets an endpoint can be signing with at once: each
	// lengthens the signature header.
	MaxSecrets = 5
	// MaxOverlap is how long a secret can go on signing beside its successor.
	MaxOverlap = 30 * 24 * time.Hour
)

// Rotation replaces an endpoint's secret.
type Rotation struct {
	Secret  string        // the new one, which fits the endpoint's scheme
	Overlap time.Duration // how long those before it go on signing; 0 to MaxOverlap
}

// RotateSecret adds a secret to an endpoint and lets the others end with the
// overlap. check looks at the endpoint first; its errors are returned as they
// are. Else the errors are [store.ErrNotFound], [posthaste.CodeInvalid] for a
// secret that is in use, and [posthaste.CodeConflict] for one too many.
func (p *Pipeline) RotateSecret(
	ctx context.Context, tenant store.TenantRow, id posthaste.ID, r Rotation, check func(*store.EndpointRow) error,
) (store.EndpointRow, error) {
	for range changeTries {
		row, err := p.store.Endpoint(ctx, tenant.No, id)
		if err == nil && !row.DeletedAt.IsZero() {
			err = store.ErrNotFound
		}
		if err == nil {
			err = check(&row)
		}
		if err != nil {
			return row, err
		}
		params, err := p.rotation(row, r)
		if err != nil {
			return row, err
		}
		row, err = p.store.RotateSecret(ctx, params)
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return row, err
		}
		p.reload(ctx, tenant.No)
		return row, nil
	}
	return store.EndpointRow{}, errContended
}

func (p *Pipeline) rotation(row store.EndpointRow, r Rotation) (store.RotateSecretParams, error) {
	now := p.clock.Now()
	secrets, err := p.openSecrets(row, now)
	switch {
	case err != nil:
		return store.RotateSecretParams{}, err
	case slices.ContainsFunc(secrets, func(s openSecret) bool { return s.text == r.Secret }):
		return store.RotateSecretParams{}, posthaste.Invalid([]posthaste.Problem{{
			Field: "secret", Message: "signs already", Hint: "choose another one, or leave it out to have one made",
		}})
	case r.Overlap > 0 && len(secrets) >= MaxSecrets:
		return store.RotateSecretParams{}, &posthaste.Error{
			Code: posthaste.CodeConflict, Message: fmt.Sprintf("%d secrets sign already", len(secrets)),
			Hint: `wait until one has expired, or end all others at once with "overlap":"0s"`,
		}
	}
	no := 1
	if n := len(row.Secrets); n > 0 {
		no = row.Secrets[n-1].No + 1
	}
	sealed, err := p.keyring.Seal(secretContext(row.ID, no), []byte(r.Secret))
	if err != nil {
		return store.RotateSecretParams{}, fmt.Errorf("seal the endpoint's secret: %w", err)
	}
	return store.RotateSecretParams{
		Tenant: row.Tenant, ID: row.ID, FromVersion: row.Version, Now: now, ExpireAt: now.Add(r.Overlap),
		Secret: store.SealedSecret{No: no, Sealed: sealed, KeyID: p.keyring.KeyID()},
	}, nil
}

// secretContext binds a sealed secret to its place, so that it can't be moved to another.
func secretContext(id posthaste.ID, no int) string {
	return fmt.Sprintf("endpoint-secret/%s/%d", id.Print(posthaste.KindEndpoint), no)
}

// Secrets opens the secrets that an endpoint signs with now, the newest first.
func (p *Pipeline) Secrets(row store.EndpointRow) ([]string, error) {
	open, err := p.openSecrets(row, p.clock.Now())
	texts := make([]string, len(open))
	for i, s := range open {
		texts[i] = s.text
	}
	return texts, err
}

type openSecret struct {
	text      string
	expiresAt time.Time
}

// openSecrets opens what has not expired, the newest first.
func (p *Pipeline) openSecrets(row store.EndpointRow, now time.Time) (out []openSecret, err error) {
	for _, s := range slices.Backward(row.Secrets) {
		if !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(now) {
			continue
		}
		text, err := p.keyring.Open(secretContext(row.ID, s.No), s.Sealed)
		if err != nil {
			return nil, fmt.Errorf("open secret %d, sealed with key %s: %w", s.No, s.KeyID, err)
		}
		out = append(out, openSecret{string(text), s.ExpiresAt})
	}
	return out, nil
}

// signing is what an endpoint's attempts are made with until the next of its
// secrets expires, and what then. So an expiry needs nobody to notice it: each
// attempt takes what its own time says.
type signing struct {
	target *deliver.Target // nil where no secret is left
	until  time.Time       // exclusive; zero: for good
	next   *signing
}

// prepareSigning makes a target for each span of time between two expiries,
// MaxSecrets at most.
func (p *Pipeline) prepareSigning(row store.EndpointRow) (*signing, error) {
	secrets, err := p.openSecrets(row, p.clock.Now())
	if err != nil {
		return nil, err
	}
	var texts []string
	var until time.Time // the earliest expiry of those that sign
	for _, s := range secrets {
		texts = append(texts, s.text)
		if !s.expiresAt.IsZero() && (until.IsZero() || s.expiresAt.Before(until)) {
			until = s.expiresAt
		}
	}
	first := &signing{until: until}
	definition, err := p.openHeaders(row)
	if err != nil {
		return nil, err
	}
	if first.target, err = deliver.NewTarget(definition, texts); err != nil {
		return nil, err
	}
	if until.IsZero() {
		return first, nil
	}
	row.Secrets = slices.DeleteFunc(slices.Clone(row.Secrets), func(s store.SealedSecret) bool {
		return !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(until)
	})
	if len(row.Secrets) > 0 { // the newest does not expire, unless somebody wrote so by hand
		first.next, err = p.prepareSigning(row)
	}
	return first, err
}

var errNoSecret = errors.New("every secret of the endpoint has expired")

// targetOf returns what an attempt that begins now is made with. Where no secret
// is on its way out, which is nearly always, that is one comparison.
func (p *Pipeline) targetOf(e *endpoint) (*deliver.Target, error) {
	p.ready(e)
	if e.unusable != nil {
		return nil, e.unusable
	}
	s := e.signing
	if s.until.IsZero() {
		return s.target, nil
	}
	now := p.clock.Now()
	for s != nil && !s.until.IsZero() && !now.Before(s.until) {
		s = s.next
	}
	if s == nil {
		return nil, errNoSecret
	}
	return s.target, nil
}
