package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/posthaste-dev/posthaste/client"
)

type sendCommand struct {
	remote
	Type        string   `arg:"" help:"Type of the event, such as invoice.paid."`
	Data        string   `placeholder:"@FILE|-|TEXT" help:"Payload: a file, - for standard input, or the text itself. Default: empty."`
	Key         string   `placeholder:"KEY" help:"Idempotency key: with the same key an event is stored once."`
	ContentType string   `placeholder:"TYPE" help:"Default: by the payload's look, application/json for JSON."`
	Endpoint    []string `placeholder:"ID" help:"Send to these endpoints only."`
}

// Run sends one event.
func (c *sendCommand) Run(ctx context.Context, s Streams) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	payload, err := readData(c.Data, s.Stdin)
	if err != nil {
		return err
	}
	contentType := c.ContentType
	if contentType == "" {
		contentType = guessContentType(payload)
	}
	receipt, err := api.Events.Send(ctx, client.NewEvent{
		Type: c.Type, Payload: payload, ContentType: contentType,
		IdempotencyKey: c.Key, EndpointIDs: c.Endpoint,
	})
	if err != nil {
		return err
	}
	return c.printer(s).object(receipt, func() error {
		_, err := fmt.Fprintf(s.Stdout, "%s  %s\n", receipt.ID, describe(receipt))
		return err
	})
}

func describe(r client.Receipt) string {
	if r.Duplicate {
		return "already accepted under this key"
	}
	switch r.Deliveries {
	case 0:
		return "accepted; no endpoint takes events of this type, so nothing is delivered"
	case 1:
		return "accepted, 1 delivery"
	}
	return fmt.Sprintf("accepted, %d deliveries", r.Deliveries)
}

// readData reads a payload the way curl does: a file after @, - for standard
// input, anything else is the payload itself.
func readData(data string, stdin io.Reader) ([]byte, error) {
	if data == "-" {
		raw, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("read the payload from standard input: %w", err)
		}
		return raw, nil
	}
	if name, isFile := strings.CutPrefix(data, "@"); isFile {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		return raw, nil
	}
	return []byte(data), nil
}

func guessContentType(payload []byte) string {
	switch {
	case len(payload) == 0:
		return ""
	case json.Valid(payload):
		return "application/json"
	}
	return http.DetectContentType(payload)
}
