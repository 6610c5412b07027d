package stream

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// frame is a change as it goes over the wire, made once for all clients.
type frame struct {
	tenant store.TenantNo
	kind   store.ChangeKind
	bytes  []byte
}

// batch is a part of a page, shared by the clients that it is for.
type batch struct {
	reset  []byte // an event stream.reset that goes before the frames; nil: none
	frames []frame
	bytes  int
}

func (b *batch) add(f frame) {
	b.frames = append(b.frames, f)
	b.bytes += len(f.bytes)
}

// data is what the API shows of a change.
type data struct {
	Tenant        string          `json:"tenant"`
	DeliveryID    string          `json:"delivery_id,omitempty"`
	EventID       string          `json:"event_id,omitempty"`
	EndpointID    string          `json:"endpoint_id,omitempty"`
	Type          string          `json:"type,omitempty"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	Gate          json.RawMessage `json:"gate,omitempty"`
	At            string          `json:"at"`
}

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

func newFrame(c *store.Change) (frame, error) {
	d := data{Tenant: c.TenantName, Type: c.Type, Gate: c.Detail, At: c.At.UTC().Format(timeLayout)}
	for _, id := range []struct {
		id   posthaste.ID
		kind posthaste.Kind
		to   *string
	}{
		{c.Delivery, posthaste.KindDelivery, &d.DeliveryID}, {c.Event, posthaste.KindEvent, &d.EventID},
		{c.Endpoint, posthaste.KindEndpoint, &d.EndpointID}, {c.CorrelationID, posthaste.KindEvent, &d.CorrelationID},
	} {
		if !id.id.IsZero() {
			*id.to = id.id.Print(id.kind)
		}
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return frame{}, fmt.Errorf("print a change: %w", err)
	}
	return frame{tenant: c.Tenant, kind: c.Kind, bytes: appendEvent(nil, printID(c.Cursor, c.At), c.Kind.String(), raw)}, nil
}

func appendEvent(buf []byte, id, name string, data []byte) []byte {
	buf = append(append(append(buf, "id: "...), id...), '\n')
	buf = append(append(append(buf, "event: "...), name...), '\n')
	return append(append(append(buf, "data: "...), data...), "\n\n"...)
}

// appendNote appends a comment with a new id, which a client keeps without being
// told of an event: so a quiet client, too, comes back to where it was.
func appendNote(buf []byte, note string, at store.Cursor, seen time.Time) []byte {
	return fmt.Appendf(buf, ": %s\nid: %s\n\n", note, printID(at, seen))
}
