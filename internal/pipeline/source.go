package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// SourceSecrets are what is secret about a source.
type SourceSecrets struct {
	Secrets  []string          `json:"secrets"`            // what the provider signs with
	Settings map[string]string `json:"settings,omitempty"` // those of its settings that are secret
}

func (s SourceSecrets) equal(other SourceSecrets) bool {
	return slices.Equal(s.Secrets, other.Secrets) && maps.Equal(s.Settings, other.Settings)
}

// SourceEdit is a source that is being changed, opened.
type SourceEdit struct {
	store.SourceRow
	Secret SourceSecrets
}

// CreateSource stores a valid source. It is in force when the call returns.
func (p *Pipeline) CreateSource(ctx context.Context, tenant store.TenantRow, s posthaste.Source, secret SourceSecrets) (store.SourceRow, error) {
	now := p.clock.Now()
	s.ID, s.Version, s.CreatedAt, s.UpdatedAt = posthaste.NewSourceID(), 1, now, now
	sealed, err := p.sealSource(s.ID, secret)
	if err != nil {
		return store.SourceRow{}, err
	}
	return p.store.CreateSource(ctx, store.CreateSourceParams{Tenant: tenant.No, Source: s, Secrets: sealed})
}

// PutSource makes the source of a uid as create says, or, where the tenant has one,
// lets change edit it; see [Pipeline.PutEndpoint].
func (p *Pipeline) PutSource(
	ctx context.Context, tenant store.TenantRow, uid string,
	create func() (posthaste.Source, SourceSecrets, error), change func(*SourceEdit) error,
) (row store.SourceRow, made bool, err error) {
	for range changeTries {
		row, err = p.store.SourceByUID(ctx, tenant.No, uid)
		switch {
		case err == nil:
			row, err = p.ChangeSource(ctx, tenant, row.ID, change)
			if !errors.Is(err, store.ErrNotFound) {
				return row, false, err
			}
			continue // deleted meanwhile: it is to be made anew
		case !errors.Is(err, store.ErrNotFound):
			return row, false, err
		}
		s, secret, err := create()
		if err != nil {
			return row, false, err
		}
		s.UID = uid
		row, err = p.CreateSource(ctx, tenant, s, secret)
		if !errors.Is(err, store.ErrTaken) {
			return row, err == nil, err
		}
	}
	return row, false, errContended
}

// ChangeSource lets change edit a source; the rules are those of
// [Pipeline.ChangeEndpoint]. It is in force here when the call returns, and
// within two seconds on every replica.
func (p *Pipeline) ChangeSource(ctx context.Context, tenant store.TenantRow, id posthaste.ID, change func(*SourceEdit) error) (store.SourceRow, error) {
	for range changeTries {
		row, err := p.store.Source(ctx, tenant.No, id)
		if err != nil {
			return row, err
		}
		edit := SourceEdit{SourceRow: row}
		if edit.Secret, err = p.OpenSource(row); err != nil {
			return row, err
		}
		before := edit.Secret
		if err := change(&edit); err != nil {
			return row, err
		}
		if sameSource(row.Source, edit.Source) && before.equal(edit.Secret) {
			return row, nil
		}
		sealed := row.Secrets
		if !before.equal(edit.Secret) {
			if sealed, err = p.sealSource(id, edit.Secret); err != nil {
				return row, err
			}
		}
		edit.UpdatedAt = p.clock.Now()
		changed, err := p.store.UpdateSource(ctx, store.UpdateSourceParams{Tenant: tenant.No, Source: edit.Source, Secrets: sealed, FromVersion: row.Version})
		if errors.Is(err, store.ErrConflict) {
			continue
		}
		p.sources.forget(id)
		return changed, err
	}
	return store.SourceRow{}, errContended
}

// sameSource compares what an owner can change.
func sameSource(a, b posthaste.Source) bool {
	return a.Name == b.Name && a.Provider == b.Provider && a.MaxBodyBytes == b.MaxBodyBytes && a.UID == b.UID &&
		maps.Equal(a.Settings, b.Settings) && maps.Equal(a.Metadata, b.Metadata)
}

// DeleteSource deletes a source: its URL is unknown from then on, and what came
// through it stays. [store.ErrConflict] if it is not at the version (0: any).
func (p *Pipeline) DeleteSource(ctx context.Context, tenant store.TenantRow, id posthaste.ID, version int) error {
	err := p.store.DeleteSource(ctx, store.DeleteSourceParams{Tenant: tenant.No, ID: id, FromVersion: version})
	p.sources.forget(id)
	return err
}

// OpenSource opens what is secret about a source.
func (p *Pipeline) OpenSource(row store.SourceRow) (secret SourceSecrets, err error) {
	raw, err := p.keyring.Open(sourceContext(row.ID), row.Secrets.Sealed)
	if err == nil {
		err = json.Unmarshal(raw, &secret)
	}
	if err != nil {
		return secret, fmt.Errorf("open the secrets of source %d, sealed with key %s: %w", row.No, row.Secrets.KeyID, err)
	}
	return secret, nil
}

func (p *Pipeline) sealSource(id posthaste.ID, secret SourceSecrets) (store.SealedSecret, error) {
	raw, err := json.Marshal(secret)
	if err != nil {
		return store.SealedSecret{}, fmt.Errorf("seal the source's secrets: %w", err)
	}
	sealed, err := p.keyring.Seal(sourceContext(id), raw)
	if err != nil {
		return store.SealedSecret{}, fmt.Errorf("seal the source's secrets: %w", err)
	}
	return store.SealedSecret{Sealed: sealed, KeyID: p.keyring.KeyID()}, nil
}

// sourceContext binds what is sealed to its place, so that it can't be moved to another.
func sourceContext(id posthaste.ID) string { return "source-secrets/" + id.Print(posthaste.KindSource) }
