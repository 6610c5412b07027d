package cli

import (
	"bytes"
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
	Type        string   `arg:"" help:"Event type, such as invoice.paid."`
	Data        string   `placeholder:"@FILE|-|TEXT" help:"Payload: @FILE, - for standard input, or the text. Default: empty."`
	Key         *string  `placeholder:"KEY" help:"Idempotency key. An event with the same key is stored once."`
	ContentType string   `placeholder:"TYPE" help:"Content type. Default: application/json if the payload is JSON, else detected."`
	Endpoint    []string `placeholder:"ID" help:"Deliver to these endpoints only: ids, or uid:ID with your own ids."`
	Forward     []string `sep:"none" placeholder:"'NAME: VALUE'" help:"Header for receivers; may be repeated."`
	OrderKey    string   `placeholder:"KEY" help:"Order key, stored with the event."`
	Traceparent string   `env:"TRACEPARENT" placeholder:"00-…" help:"W3C trace context, sent to receivers."`
}

// Run sends one event.
func (c *sendCommand) Run(ctx context.Context, s Streams) error {
	key := ""
	if c.Key != nil {
		if key = *c.Key; key == "" { // of a script whose variable is not set
			return usageError{"--key is empty; leave it out to send without one"}
		}
	}
	forward, err := readHeaders(c.Forward)
	if err != nil {
		return err
	}
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
	if warning := notJSON(payload, c.ContentType); warning != "" {
		_, _ = fmt.Fprintln(s.Stderr, "posthaste: warning:", warning)
	}
	receipt, err := api.Events.Send(ctx, client.NewEvent{
		Type: c.Type, Payload: payload, ContentType: contentType,
		IdempotencyKey: key, EndpointIDs: c.Endpoint, Forward: forward, OrderKey: c.OrderKey, Traceparent: c.Traceparent,
	})
	if err != nil {
		return err
	}
	return printReceipt(c.printer(s), receipt)
}

func printReceipt(p printer, receipt client.Receipt) error {
	return p.object(receipt, func() error {
		_, err := fmt.Fprintf(p.Stdout, "%s  %s\n", receipt.ID, describe(receipt))
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

// notJSON warns of a payload that is meant to be JSON and is not: most often the shell has
// taken quotes away. The event is sent all the same. contentType is the one given, or "".
// It returns "" if there is nothing to warn of.
func notJSON(payload []byte, contentType string) string {
	if json.Valid(payload) {
		return ""
	}
	mediaType, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	mediaType = strings.TrimSpace(mediaType)
	if mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") {
		return "the payload is not valid JSON; receivers of " + mediaType + " will probably refuse it"
	}
	begin := bytes.TrimSpace(payload)
	if contentType == "" && len(begin) > 0 && (begin[0] == '{' || begin[0] == '[') {
		return "the payload looks like JSON and is not valid; it is sent as " + http.DetectContentType(payload)
	}
	return ""
}

// readHeaders reads headers as curl takes them.
func readHeaders(lines []string) (map[string]string, error) {
	headers := map[string]string{}
	for _, line := range lines {
		name, value, isHeader := strings.Cut(line, ":")
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if !isHeader || name == "" {
			return nil, usageError{fmt.Sprintf("--forward is %q; want a header such as 'X-Trace: abc'", line)}
		}
		if _, isTwice := headers[name]; isTwice {
			return nil, usageError{fmt.Sprintf("--forward names the header %s twice", name)}
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}
