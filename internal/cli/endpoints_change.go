package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

type endpointsPut struct {
	remote
	written
	limits
	UID      string            `arg:"" name:"uid" help:"Your own id of the endpoint."`
	URL      string            `arg:"" help:"URL that events are sent to."`
	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Metadata; may be repeated."`
}

// Run makes or replaces an endpoint.
func (c *endpointsPut) Run(ctx context.Context, s Streams) error {
	endpoint := client.NewEndpoint{
		URL: c.URL, Metadata: c.Metadata, EventTypes: c.Types, Sources: c.Sources, Description: c.Description, Secret: c.Secret,
	}
	if err := c.limits.apply(&endpoint); err != nil {
		return err
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.Put(ctx, strings.TrimPrefix(c.UID, posthaste.UIDPrefix), endpoint)
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

type endpointsRotate struct {
	remote
	ID      string         `arg:"" help:"Endpoint id, or uid:ID with your own id."`
	Overlap *time.Duration `placeholder:"DURATION" help:"How long the present secret keeps signing. Default: 24h."`
	Secret  string         `env:"POSTHASTE_NEW_SECRET" placeholder:"whsec_…" help:"New secret. Default: generated."`
}

// Run replaces a secret.
func (c *endpointsRotate) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.RotateSecret(ctx, c.ID, client.Rotation{Secret: c.Secret, Overlap: (*posthaste.Duration)(c.Overlap)})
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

type endpointsUpdate struct {
	remote
	limits
	ID          string   `arg:"" help:"Endpoint id, or uid:ID with your own id."`
	URL         string   `placeholder:"URL" help:"URL that events are sent to."`
	Types       []string `placeholder:"PATTERN" help:"Event types: exact, a prefix such as invoice.*, or *."`
	Description *string  `placeholder:"TEXT" help:"Description."`
	Enabled     *bool    `negatable:"" help:"Enable the endpoint, or disable it with --no-enabled."`
	Patch       string   `placeholder:"@FILE|-|JSON" help:"JSON Merge Patch with any fields, such as {\"retry\":{\"timeout\":\"5s\"}}; null is the default, and none for rate_limit, breaker and retry.rps."`
}

// Run changes an endpoint.
func (c *endpointsUpdate) Run(ctx context.Context, s Streams) error {
	patch, err := c.patch(s)
	if err != nil {
		return err
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.Update(ctx, c.ID, patch)
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

// readPatch returns the fields of a flag --patch, none where it is not given.
func readPatch(flag string, s Streams) (map[string]any, error) {
	patch := map[string]any{}
	if flag == "" {
		return patch, nil
	}
	raw, err := readData(flag, s.Stdin)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage // numbers keep their digits
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, usageError{"--patch is not a JSON object: " + err.Error()}
	}
	for name, value := range fields {
		patch[name] = value
	}
	return patch, nil
}

// lay puts flags for members of an object over what --patch says of it.
func lay[V any](patch map[string]any, name string, flags map[string]V) error {
	members := map[string]any{}
	if raw, is := patch[name].(json.RawMessage); is {
		var given map[string]json.RawMessage
		if json.Unmarshal(raw, &given) != nil || given == nil {
			return usageError{fmt.Sprintf("--patch and the flags say different things of %s", name)}
		}
		for member, value := range given {
			members[member] = value
		}
	}
	for member, value := range flags {
		members[member] = value
	}
	patch[name] = members
	return nil
}

// patch puts the flags over what --patch gives.
func (c *endpointsUpdate) patch(s Streams) (map[string]any, error) {
	patch, err := readPatch(c.Patch, s)
	if err != nil {
		return nil, err
	}
	if c.URL != "" {
		patch["url"] = c.URL
	}
	if c.Types != nil {
		patch["event_types"] = c.Types
	}
	if c.Description != nil {
		patch["description"] = *c.Description
	}
	if c.Enabled != nil {
		patch["enabled"] = *c.Enabled
	}
	if err := c.limits.patch(patch); err != nil {
		return nil, err
	}
	if len(patch) == 0 {
		return nil, usageError{"nothing is to be changed: name a field, or give a --patch"}
	}
	return patch, nil
}

type endpointsPause struct {
	remote
	ID string `arg:"" help:"Endpoint id, or uid:ID with your own id."`
}

// Run pauses an endpoint.
func (c *endpointsPause) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.Pause(ctx, c.ID)
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

type endpointsResume struct {
	remote
	ID string `arg:"" help:"Endpoint id, or uid:ID with your own id."`
}

// Run ends a pause.
func (c *endpointsResume) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	e, err := api.Endpoints.Resume(ctx, c.ID)
	if err != nil {
		return err
	}
	return printEndpoint(c.printer(s), e)
}

type endpointsTest struct {
	remote
	ID   string `arg:"" help:"Endpoint id, or uid:ID with your own id."`
	Type string `placeholder:"TYPE" help:"Type of the event. Default: posthaste.test."`
	Data string `placeholder:"@FILE|-|JSON" help:"Payload, any JSON. Default: a message that says what it is."`
}

// Run sends a test event.
func (c *endpointsTest) Run(ctx context.Context, s Streams) error {
	event := client.TestEvent{Type: c.Type}
	if c.Data != "" {
		payload, err := readData(c.Data, s.Stdin)
		if err != nil {
			return err
		}
		if !json.Valid(payload) {
			return usageError{"--data is not JSON, which the payload of a test has to be"}
		}
		event.Payload = payload
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	receipt, err := api.Endpoints.Test(ctx, c.ID, event)
	if err != nil {
		return err
	}
	return printReceipt(c.printer(s), receipt)
}
