package httpapi

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/posthaste-dev/posthaste"
)

// page is a page of a list, newest first.
type page[T any] struct {
	Data []T     `json:"data"`
	Next *string `json:"next" doc:"The cursor of the next page; null at the end. A filtered page may be short, even empty, and have one"`
}

// newPage turns rows into a page.
func newPage[Row, T any](rows []Row, show func(Row) T, next *string) page[T] {
	p := page[T]{Data: make([]T, len(rows)), Next: next}
	for i, r := range rows {
		p.Data[i] = show(r)
	}
	return p
}

// moment is a time as the API shows it: RFC 3339 in UTC with milliseconds, and
// null for none.
type moment time.Time

const momentLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON implements json.Marshaler.
func (m moment) MarshalJSON() ([]byte, error) {
	t := time.Time(m)
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format(momentLayout))
}

// Schema describes it in the OpenAPI document.
func (moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true}
}

// orNull shows an empty string as null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func idOrNull(kind posthaste.Kind, id posthaste.ID) *string {
	if id.IsZero() {
		return nil
	}
	return orNull(id.Print(kind))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// isText reports whether both databases can hold s as text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
