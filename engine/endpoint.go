package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/signature"
)

// EndpointUID is the uid of the endpoint that [Config.Endpoint] keeps, in the
// tenant [posthaste.TenantDefault].
const EndpointUID = "env"

// Endpoint is an endpoint that the configuration keeps.
type Endpoint struct {
	// URL is where events go. Default: none, and then no endpoint is kept.
	URL string
	// Secret is what deliveries are signed with, whsec_ and base64. Default: made by
	// the engine, once.
	Secret string
}

// keepEndpoint makes the endpoint of the configuration, or brings the one of an
// earlier start up to date. What else was changed of it through the API stays, a
// pause too. Replicas that start together make one.
func (e *Engine) keepEndpoint(ctx context.Context) error {
	tenant, err := e.pipeline.Tenant(ctx, posthaste.TenantDefault)
	if err != nil {
		return err
	}
	want := e.config.Endpoint
	if want.URL == "" {
		return e.noteLeftEndpoint(ctx, tenant)
	}
	definition := posthaste.DefaultDefinition()
	definition.URL = want.URL
	if err := e.checkEndpoint(definition); err != nil {
		return err
	}
	earlier := ""
	row, made, err := e.pipeline.PutEndpoint(ctx, tenant, EndpointUID,
		func() (posthaste.Endpoint, string, error) {
			secret := want.Secret
			if secret == "" {
				secret = signature.NewSecret()
			}
			return posthaste.Endpoint{Definition: definition}, secret, nil
		},
		func(row *store.EndpointRow) error {
			earlier, row.URL = row.URL, want.URL
			return nil
		})
	if err != nil {
		return err
	}
	id := row.ID.Print(posthaste.KindEndpoint)
	switch {
	case made:
		e.config.Log.InfoContext(ctx, "made the endpoint of the configuration", "endpoint_id", id, "uid", EndpointUID)
		return nil
	case earlier != want.URL:
		e.config.Log.InfoContext(ctx, "the endpoint of the configuration has another URL now", "endpoint_id", id, "uid", EndpointUID)
	}
	if row.Disabled {
		e.config.Log.WarnContext(ctx, "the endpoint of the configuration is disabled and stays so; enable it through the API",
			"endpoint_id", id, "uid", EndpointUID, "reason", row.DisabledReason)
	}
	return e.keepSecret(ctx, tenant, row)
}

// keepSecret makes the configured secret the only one, at once: whoever changes
// the setting has changed the receiver, and a signature of the old secret beside
// it would only say that the old one still counts. A secret that signs already is
// left alone, also one that a rotation through the API lets end.
func (e *Engine) keepSecret(ctx context.Context, tenant store.TenantRow, row store.EndpointRow) error {
	want := e.config.Endpoint.Secret
	if want == "" {
		return nil
	}
	errKept := errors.New("it signs already") // also where another replica was faster
	row, err := e.pipeline.RotateSecret(ctx, tenant, row.ID, pipeline.Rotation{Secret: want}, func(row *store.EndpointRow) error {
		secrets, err := e.pipeline.Secrets(*row)
		if err == nil && slices.Contains(secrets, want) {
			err = errKept
		}
		return err
	})
	if errors.Is(err, errKept) {
		return nil
	}
	if err == nil {
		e.config.Log.InfoContext(ctx, "the endpoint of the configuration has another secret now",
			"endpoint_id", row.ID.Print(posthaste.KindEndpoint), "uid", EndpointUID)
	}
	return err
}

// noteLeftEndpoint says what became of the endpoint of an earlier start. It stays
// as it is: a setting that got lost on the way to one replica must not end the
// deliveries of all.
func (e *Engine) noteLeftEndpoint(ctx context.Context, tenant store.TenantRow) error {
	row, err := e.pipeline.Store().EndpointByUID(ctx, tenant.No, EndpointUID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	e.config.Log.InfoContext(ctx, "the configuration names no endpoint any more; the one it had stays as it is, until it is deleted through the API",
		"endpoint_id", row.ID.Print(posthaste.KindEndpoint), "uid", EndpointUID)
	return nil
}

func (e *Engine) checkEndpoint(d posthaste.Definition) error {
	rules := posthaste.DefinitionRules{AllowNetworks: e.config.AllowNetworks, Retention: e.config.Retention}
	switch e.config.AllowHTTP {
	case HTTPNetworks:
		rules.AllowHTTP = posthaste.HTTPInNetworks
	case HTTPEverywhere:
		rules.AllowHTTP = posthaste.HTTPEverywhere
	}
	if err := posthaste.Invalid(d.Validate(rules)); err != nil {
		return err
	}
	if secret := e.config.Endpoint.Secret; secret != "" {
		if err := signature.CheckStandard(secret); err != nil {
			return fmt.Errorf("check the endpoint's secret: %w", err)
		}
	}
	return nil
}
