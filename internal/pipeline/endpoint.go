package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/retry"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Tenant returns a tenant by name, from memory where it is known, or [store.ErrNotFound].
func (p *Pipeline) Tenant(ctx context.Context, name string) (store.TenantRow, error) {
	return p.routing.tenant(ctx, name)
}

// CreateTenant makes a tenant. [store.ErrConflict] if there is one of that name.
func (p *Pipeline) CreateTenant(ctx context.Context, name string) (store.TenantRow, error) {
	return p.store.CreateTenant(ctx, name, p.clock.Now())
}

// CreateEndpoint stores a valid endpoint with its signing secret. It is in force
// here when the call returns, and everywhere for events accepted after it.
func (p *Pipeline) CreateEndpoint(ctx context.Context, tenant store.TenantRow, e posthaste.Endpoint, secret string) (store.EndpointRow, error) {
	now := p.clock.Now()
	e.ID, e.Version, e.CreatedAt, e.UpdatedAt = p.ids.Mint(now), 1, now, now
	sealed, err := p.keyring.Seal(secretContext(e.ID, 1), []byte(secret))
	if err != nil {
		return store.EndpointRow{}, fmt.Errorf("seal the endpoint's secret: %w", err)
	}
	row, err := p.store.CreateEndpoint(ctx, store.CreateEndpointParams{
		Tenant: tenant.No, Endpoint: e,
		Secrets: []store.SealedSecret{{No: 1, Sealed: sealed, KeyID: p.keyring.KeyID()}},
	})
	if err != nil {
		return row, err
	}
	return row, p.reload(ctx, tenant.No)
}

// ChangeEndpoint reads an endpoint, lets change edit it, and stores it; when
// somebody else changed it meanwhile, it begins again. Errors of change are returned as
// they are; [store.ErrNotFound], also for a deleted endpoint.
func (p *Pipeline) ChangeEndpoint(ctx context.Context, tenant store.TenantRow, id posthaste.ID, change func(*posthaste.Endpoint) error) (store.EndpointRow, error) {
	return p.change(ctx, tenant.No, id, change)
}

func (p *Pipeline) change(ctx context.Context, tenant store.TenantNo, id posthaste.ID, change func(*posthaste.Endpoint) error) (store.EndpointRow, error) {
	for range 10 {
		row, err := p.store.Endpoint(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		if !row.DeletedAt.IsZero() {
			return row, store.ErrNotFound
		}
		from := row.Version
		if err := change(&row.Endpoint); err != nil {
			return row, err
		}
		row.UpdatedAt = p.clock.Now()
		row, err = p.store.UpdateEndpoint(ctx, store.UpdateEndpointParams{Tenant: tenant, Endpoint: row.Endpoint, FromVersion: from})
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return row, err
		}
		return row, p.reload(ctx, tenant)
	}
	return store.EndpointRow{}, &posthaste.Error{
		Code: posthaste.CodeConflict, Message: "the endpoint is being changed by others", Hint: "read it again and repeat the change",
	}
}

// DeleteEndpoint makes an endpoint a tombstone: what waits for it ends dead,
// its history stays readable.
func (p *Pipeline) DeleteEndpoint(ctx context.Context, tenant store.TenantRow, id posthaste.ID) error {
	if err := p.store.DeleteEndpoint(ctx, tenant.No, id, p.clock.Now()); err != nil {
		return err
	}
	return p.reload(ctx, tenant.No)
}

// reload puts a change of this replica in force here at once.
func (p *Pipeline) reload(ctx context.Context, tenant store.TenantNo) error {
	if known := p.routing.of(tenant); known != nil {
		_, err := p.routing.load(ctx, store.TenantVersion{Tenant: tenant, Version: known.version + 1})
		return err
	}
	_, err := p.routing.ensure(ctx, tenant)
	return err
}

// secretContext binds a sealed secret to its place, so that it can't be moved to another.
func secretContext(id posthaste.ID, no int) string {
	return fmt.Sprintf("endpoint-secret/%s/%d", id.Print(posthaste.KindEndpoint), no)
}

// prepareEndpoint makes what an attempt needs of a stored endpoint: secrets
// opened, target parsed, statuses compiled. An endpoint that can't be prepared
// stays, and its attempts fail with the reason.
func (p *Pipeline) prepareEndpoint(row store.EndpointRow) *endpoint {
	e := &endpoint{row: row}
	if e.deleted() {
		return e
	}
	e.transient, e.unusable = retry.ParseStatuses(row.Retry.Transient)
	var secrets []string
	now := p.clock.Now()
	for _, s := range row.Secrets {
		if !s.ExpiresAt.IsZero() && !s.ExpiresAt.After(now) {
			continue
		}
		secret, err := p.keyring.Open(secretContext(row.ID, s.No), s.Sealed)
		if err != nil {
			e.unusable = fmt.Errorf("open secret %d, sealed with key %s: %w", s.No, s.KeyID, err)
			continue
		}
		secrets = append(secrets, string(secret))
	}
	if e.unusable == nil {
		e.target, e.unusable = deliver.NewTarget(row.Definition, secrets)
	}
	if e.unusable != nil {
		p.log.Error("endpoint can't be used", "endpoint_id", row.ID.Print(posthaste.KindEndpoint), "err", e.unusable)
	}
	return e
}

// routingChanged wakes the work of an endpoint that has opened, and the ending
// of one that was deleted.
func (p *Pipeline) routingChanged(before, after *endpoint) {
	if before != nil && after.row.No != 0 && (after.open() && !before.open() || after.deleted()) {
		now := p.clock.Now()
		p.agenda.note(after.row.No, now, now)
	}
}

// slotsOf returns how many attempts of an endpoint may be under way.
func (p *Pipeline) slotsOf(no store.EndpointNo) int {
	if e := p.routing.current(no); e != nil {
		return e.row.MaxInFlight
	}
	return posthaste.DefaultDefinition().MaxInFlight
}

// RequestHeaders rebuilds the headers that an attempt sent, signatures masked, and
// the URL that it went to, from the endpoint's definition as it was then. Both are empty
// where the definition is not known (a lost attempt).
func (p *Pipeline) RequestHeaders(ctx context.Context, d store.DeliveryRow, event posthaste.Event, a posthaste.Attempt) ([]posthaste.Header, string, error) {
	if a.EndpointVersion == 0 {
		return nil, "", nil
	}
	definition, err := p.store.Definition(ctx, d.Endpoint, a.EndpointVersion)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	target, err := deliver.NewTarget(definition, []string{placeholderSecret(definition.Signature.Scheme)})
	if err != nil {
		return nil, definition.URL, nil //nolint:nilerr // an old definition that today's rules refuse has a URL all the same
	}
	return p.sender.RequestHeaders(target, &deliver.Message{
		EventID: event.ID, DeliveryID: d.ID, Number: a.Number, Type: event.Type, ContentType: event.ContentType,
		ContentEncoding: event.ContentEncoding, Traceparent: event.Traceparent, Headers: event.Headers,
	}, a.StartedAt), definition.URL, nil
}

// placeholderSecret stands in where only the names of headers matter; what it
// signs is masked.
func placeholderSecret(scheme string) string {
	if scheme == posthaste.SchemeHex {
		return "0000000000000000"
	}
	return "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw"
}
