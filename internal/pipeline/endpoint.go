package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/retry"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// CreateEndpoint stores a valid endpoint with its signing secret, "" for a handler,
// which has nothing to sign. It is in force
// here when the call returns, and everywhere for events accepted after it.
func (p *Pipeline) CreateEndpoint(ctx context.Context, tenant store.TenantRow, e posthaste.Endpoint, secret string) (store.EndpointRow, error) {
	now := p.clock.Now()
	e.ID, e.Version, e.CreatedAt, e.UpdatedAt = p.ids.Mint(now), 1, now, now
	if err := p.sealHeaders(&e, nil); err != nil {
		return store.EndpointRow{}, err
	}
	params := store.CreateEndpointParams{Tenant: tenant.No, Endpoint: e}
	if secret != "" {
		sealed, err := p.keyring.Seal(secretContext(e.ID, 1), []byte(secret))
		if err != nil {
			return store.EndpointRow{}, fmt.Errorf("seal the endpoint's secret: %w", err)
		}
		params.Secrets = []store.SealedSecret{{No: 1, Sealed: sealed, KeyID: p.keyring.KeyID()}}
	}
	row, err := p.store.CreateEndpoint(ctx, params)
	if err != nil {
		return row, err
	}
	p.reload(ctx, tenant.No)
	return row, nil
}

// PutEndpoint makes the endpoint of a uid as create says, or, where the tenant has
// one, lets change edit it. Called again and again, and by many at once, it makes
// one endpoint. It reports whether it made it; errors of create and change are
// returned as they are.
func (p *Pipeline) PutEndpoint(
	ctx context.Context, tenant store.TenantRow, uid string,
	create func() (e posthaste.Endpoint, secret string, err error), change func(*store.EndpointRow) error,
) (row store.EndpointRow, made bool, err error) {
	for range changeTries {
		row, err = p.store.EndpointByUID(ctx, tenant.No, uid)
		switch {
		case err == nil:
			row, err = p.change(ctx, tenant.No, row.ID, change)
			if !errors.Is(err, store.ErrNotFound) {
				return row, false, err
			}
			continue // deleted meanwhile: it is to be made anew
		case !errors.Is(err, store.ErrNotFound):
			return row, false, err
		}
		e, secret, err := create()
		if err != nil {
			return row, false, err
		}
		e.UID = uid
		row, err = p.CreateEndpoint(ctx, tenant, e, secret)
		if !errors.Is(err, store.ErrTaken) {
			return row, err == nil, err
		}
	}
	return row, false, errContended
}

// changeTries is how often a change begins again that others come in the way of.
// Each time somebody else's has succeeded.
const changeTries = 50

var errContended = &posthaste.Error{
	Code: posthaste.CodeConflict, Message: "the object is being changed by others", Hint: "read it again and repeat the change",
}

// ChangeEndpoint reads an endpoint, lets change edit it, and stores it; when
// somebody else changed it meanwhile, it begins again. What is the same afterwards
// is not stored and stays at its version. Errors of change are returned as they
// are; [store.ErrNotFound], also for a deleted endpoint; [store.ErrTaken] where
// another one has the new uid.
func (p *Pipeline) ChangeEndpoint(ctx context.Context, tenant store.TenantRow, id posthaste.ID, change func(*store.EndpointRow) error) (store.EndpointRow, error) {
	return p.change(ctx, tenant.No, id, change)
}

func (p *Pipeline) change(ctx context.Context, tenant store.TenantNo, id posthaste.ID, change func(*store.EndpointRow) error) (store.EndpointRow, error) {
	for range changeTries {
		row, err := p.store.Endpoint(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		if !row.DeletedAt.IsZero() {
			return row, store.ErrNotFound
		}
		before := row.Endpoint
		if err := change(&row); err != nil {
			return row, err
		}
		if err := p.sealHeaders(&row.Endpoint, before.SecretHeaders); err != nil {
			return row, err
		}
		if same, err := sameEndpoint(before, row.Endpoint); same || err != nil {
			return row, err
		}
		row.UpdatedAt = p.clock.Now()
		row, err = p.store.UpdateEndpoint(ctx, store.UpdateEndpointParams{Tenant: tenant, Endpoint: row.Endpoint, FromVersion: before.Version})
		switch {
		case errors.Is(err, store.ErrConflict):
			continue
		case err != nil:
			return row, err
		}
		p.reload(ctx, tenant)
		p.ownerChanged(ctx, before, row.Endpoint, row.No)
		p.waker.wakeAll()
		return row, nil
	}
	return store.EndpointRow{}, errContended
}

// sameEndpoint compares what an owner can change. Definitions are the same where
// they are stored as the same JSON.
func sameEndpoint(a, b posthaste.Endpoint) (bool, error) {
	if a.UID != b.UID || a.Paused != b.Paused || a.Disabled != b.Disabled || a.DisabledReason != b.DisabledReason || !maps.Equal(a.Metadata, b.Metadata) {
		return false, nil
	}
	before, err := json.Marshal(a.Definition)
	if err != nil {
		return false, fmt.Errorf("compare endpoints: %w", err)
	}
	after, err := json.Marshal(b.Definition)
	if err != nil {
		return false, fmt.Errorf("compare endpoints: %w", err)
	}
	return bytes.Equal(before, after), nil
}

// DeleteEndpoint makes an endpoint a tombstone: what waits for it ends dead,
// its history stays readable, its uid is free again. [store.ErrConflict] if it is
// not at the version (0: any).
func (p *Pipeline) DeleteEndpoint(ctx context.Context, tenant store.TenantRow, id posthaste.ID, version int) error {
	err := p.store.DeleteEndpoint(ctx, store.DeleteEndpointParams{Tenant: tenant.No, ID: id, FromVersion: version, Now: p.clock.Now()})
	if err != nil {
		return err
	}
	p.reload(ctx, tenant.No)
	p.waker.wakeAll() // to end what waits
	return nil
}

// reload puts a change of this replica in force here at once. The change is
// stored; if it can't be read back now, accepts and the heartbeat will.
func (p *Pipeline) reload(ctx context.Context, tenant store.TenantNo) {
	if err := p.routing.sync(ctx, tenant); err != nil {
		p.log.WarnContext(ctx, "a change is stored, and not in force here yet", "err", err)
	}
}

// prepareEndpoint makes the endpoint in memory of a stored one. An endpoint that can't
// be read stays, and its deliveries wait.
func (p *Pipeline) prepareEndpoint(row store.EndpointRow) *endpoint {
	if row.Unusable != nil {
		p.log.Error("endpoint can't be read: what is for it waits", "endpoint_id", row.ID.Print(posthaste.KindEndpoint), "err", row.Unusable)
		// Nobody knows what it subscribes to: what might be for it is kept.
		row.Definition, row.Paused = posthaste.DefaultDefinition(), true
	}
	e := &endpoint{row: row, printed: row.ID.Print(posthaste.KindEndpoint), policy: p.policyOf(row.Definition), handlers: p.handlers}
	if e.isHandler() {
		e.unusable = errNoRequest
	} else {
		e.unusable = row.Unusable
	}
	return e
}

// ready makes what an attempt needs of an endpoint, at its first one: secrets opened,
// targets parsed, statuses compiled. Of one that can't be prepared, attempts fail with
// the reason.
func (p *Pipeline) ready(e *endpoint) {
	e.prepared.Do(func() {
		if e.unusable != nil || e.signing != nil || e.deleted() {
			return
		}
		e.transient, e.unusable = retry.ParseStatuses(e.row.Retry.Transient)
		if e.unusable == nil {
			e.signing, e.unusable = p.prepareSigning(e.row)
		}
		if e.unusable != nil {
			p.log.Error("endpoint can't be used", "endpoint_id", e.printed, "err", e.unusable)
		}
	})
}

var errNoRequest = errors.New("a handler is called, not sent to")

// routingChanged wakes the work of an endpoint that may have opened, or whose limits
// may have changed, and the ending of one that was deleted.
func (p *Pipeline) routingChanged(before, after *endpoint) {
	if before != nil && after.row.No != 0 && (after.open() || after.deleted()) {
		now := p.clock.Now()
		p.throughs.forgetSlot(after.row.No)
		p.agenda.note(after.row.No, now, now)
	}
}

// slotsOf returns how many attempts of an endpoint may be under way.
func (p *Pipeline) slotsOf(no store.EndpointNo) int {
	if e := p.routing.current(no); e != nil {
		return p.slotsFor(e)
	}
	return p.life.share(posthaste.DefaultDefinition().MaxInFlight)
}

// RequestHeaders rebuilds the headers that an attempt sent, signatures and credentials masked, and
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
	for name := range definition.SecretHeaders {
		definition.SecretHeaders[name] = posthaste.Masked // and masked again where it is shown
	}
	target, err := deliver.NewTarget(definition, []string{placeholderSecret(definition.Signature.Scheme)})
	if err != nil {
		return nil, posthaste.MaskURL(definition.URL), nil //nolint:nilerr // an old definition that today's rules refuse has a URL all the same
	}
	return p.sender.RequestHeaders(target, &deliver.Message{
		EventID: event.ID, DeliveryID: d.ID, Number: a.Number, Type: event.Type, ContentType: event.ContentType,
		ContentEncoding: event.ContentEncoding, Traceparent: event.Traceparent, Headers: event.Headers,
	}, a.StartedAt), posthaste.MaskURL(definition.URL), nil
}

// placeholderSecret stands in where only the names of headers matter; what it
// signs is masked.
func placeholderSecret(scheme string) string {
	if scheme == posthaste.SchemeHex {
		return "0000000000000000"
	}
	return "whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw"
}
