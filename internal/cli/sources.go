package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

type sourcesCommand struct {
	List       sourcesList       `cmd:"" help:"List sources, newest first."`
	Get        sourcesGet        `cmd:"" help:"Show a source."`
	Create     sourcesCreate     `cmd:"" help:"Create a source and print the path for the provider's webhooks."`
	Put        sourcesPut        `cmd:"" help:"Create or replace the source with a uid, including its secrets. Repeating the command changes nothing."`
	Update     sourcesUpdate     `cmd:"" help:"Update a source. Settings without a flag stay."`
	Delete     sourcesDelete     `cmd:"" help:"Delete a source. Its events stay."`
	Rejections sourcesRejections `cmd:"" help:"List webhooks that a source rejected, with the reason."`
}

type sourcesList struct {
	remote
	listing
}

// Run lists sources.
func (c *sourcesList) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	paging, err := c.paging()
	if err != nil {
		return err
	}
	t := table[client.Source]{
		head: []string{"ID", "UID", "PROVIDER", "NAME", "REJECTED"},
		row: func(src client.Source) []string {
			return []string{src.ID, orDash(src.UID), src.Provider, shorten(orDash(src.Name), 40), strconv.Itoa(src.Rejected)}
		},
		none: "no sources",
	}
	return t.print(c.printer(s), api.Sources.All(ctx, paging), c.Limit)
}

type sourcesGet struct {
	remote
	ID string `arg:"" help:"Id of the source, or uid: and your own id for it."`
}

// Run shows a source.
func (c *sourcesGet) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	source, err := api.Sources.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	return printSource(c.printer(s), source)
}

func printSource(p printer, source client.Source) error {
	return p.object(source, func() error {
		return fields(p.Stdout, "id", source.ID, "uid", source.UID, "metadata", showMetadata(source.Metadata), "url", source.URL,
			"name", source.Name, "provider", source.Provider, "settings", showMetadata(source.Settings),
			"secrets", strconv.Itoa(source.SecretCount), "max body", strconv.Itoa(source.MaxBodyBytes)+" bytes",
			"rejected in a row", strconv.Itoa(source.Rejected), "created", showTime(source.CreatedAt), "updated", showTime(source.UpdatedAt))
	})
}

type sourcesCreate struct {
	remote
	label
	received
	Provider string `arg:"" help:"Provider: stripe, github, meta …"`
}

// received are the flags for what is written of a new source.
type received struct {
	Name    string            `placeholder:"TEXT" help:"Description."`
	Secret  []string          `env:"POSTHASTE_SOURCE_SECRET" sep:"none" placeholder:"SECRET" help:"What the provider signs with; can be given again, any of them may match."`
	Setting map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"What is particular to the provider, such as tolerance=5m; can be given again."`
}

// Run makes a source.
func (c *sourcesCreate) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	source, err := api.Sources.Create(ctx, client.NewSource{
		Provider: c.Provider, Name: c.Name, UID: c.UID, Metadata: c.Metadata, Secrets: c.Secret, Settings: c.Setting,
	})
	if err != nil {
		return err
	}
	return printSource(c.printer(s), source)
}

type sourcesPut struct {
	remote
	received
	UID      string            `arg:"" name:"uid" help:"Your own id for the source."`
	Provider string            `arg:"" help:"Provider: stripe, github, meta …"`
	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Metadata; may be repeated."`
}

// Run makes or replaces a source.
func (c *sourcesPut) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	source, err := api.Sources.Put(ctx, strings.TrimPrefix(c.UID, posthaste.UIDPrefix), client.NewSource{
		Provider: c.Provider, Name: c.Name, Metadata: c.Metadata, Secrets: c.Secret, Settings: c.Setting,
	})
	if err != nil {
		return err
	}
	return printSource(c.printer(s), source)
}

type sourcesUpdate struct {
	remote
	ID      string            `arg:"" help:"Id of the source, or uid: and your own id for it."`
	Name    *string           `placeholder:"TEXT" help:"Description."`
	Secret  []string          `env:"POSTHASTE_SOURCE_SECRET" sep:"none" placeholder:"SECRET" help:"What the provider signs with, in the place of all present secrets; can be given again."`
	Setting map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A setting of the provider; can be given again."`
	Patch   string            `placeholder:"@FILE|-|JSON" help:"JSON Merge Patch with any fields, such as {\"settings\":{\"tolerance\":null}}; null is the default."`
}

// Run changes a source.
func (c *sourcesUpdate) Run(ctx context.Context, s Streams) error {
	patch, err := c.patch(s)
	if err != nil {
		return err
	}
	api, err := c.client()
	if err != nil {
		return err
	}
	source, err := api.Sources.Update(ctx, c.ID, patch)
	if err != nil {
		return err
	}
	return printSource(c.printer(s), source)
}

// patch puts the flags over what --patch gives.
func (c *sourcesUpdate) patch(s Streams) (map[string]any, error) {
	patch, err := readPatch(c.Patch, s)
	if err != nil {
		return nil, err
	}
	if c.Name != nil {
		patch["name"] = *c.Name
	}
	if c.Secret != nil {
		patch["secrets"] = c.Secret
	}
	if c.Setting != nil {
		if err := lay(patch, "settings", c.Setting); err != nil {
			return nil, err
		}
	}
	if len(patch) == 0 {
		return nil, usageError{"nothing is to be changed: name a field, or give a --patch"}
	}
	return patch, nil
}

type sourcesDelete struct {
	remote
	ID string `arg:"" help:"Id of the source, or uid: and your own id for it."`
}

// Run deletes a source.
func (c *sourcesDelete) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if err := api.Sources.Delete(ctx, c.ID); err != nil {
		return err
	}
	return c.printer(s).object(map[string]any{"id": c.ID, "deleted": true}, func() error {
		_, err := fmt.Fprintf(s.Stdout, "%s  deleted\n", printable(c.ID))
		return err
	})
}

type sourcesRejections struct {
	remote
	listing
	ID string `arg:"" help:"Id of the source, or uid: and your own id for it."`
}

// Run shows rejections.
func (c *sourcesRejections) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	paging, err := c.paging()
	if err != nil {
		return err
	}
	t := table[client.Rejection]{
		head: []string{"RECEIVED", "REASON", "DETAIL", "HINT"},
		row: func(r client.Rejection) []string {
			return []string{showTime(r.ReceivedAt), r.Reason, shorten(r.Detail, 160), shorten(orDash(r.Hint), 160)}
		},
		none: "no rejections",
	}
	return t.print(c.printer(s), api.Sources.Rejections(ctx, c.ID, paging), c.Limit)
}
