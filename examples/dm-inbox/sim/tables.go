package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tables is what an inbox holds, as far as Meta's traffic decides it.
type Tables struct {
	Leads    map[LeadKey]*Lead
	Messages map[MessageKey]*Message
	// Told counts the live events that say that something is new: one for each lead,
	// one for each message.
	Told map[string]int
}

// LeadKey names a customer as one account sees them.
type LeadKey struct{ Account, Customer string }

// Lead is a conversation.
type Lead struct {
	// Unread is how many messages of the customer nobody has opened: all of them,
	// in a run in which nobody looks.
	Unread int
}

// MessageKey names a message: an id of Meta's, and the account it was sent for.
type MessageKey struct{ Account, MID string }

// Message is a message of either side.
type Message struct {
	Account, MID, Customer string
	FromCustomer           bool
	SentAt                 time.Time
	Text                   string // the newest
	Edits                  int    // the number of the newest edit
	Unsent                 bool
	Read                   bool   // by the customer
	Reaction               string // the customer's, "" without

	delivered bool
}

// The live events that are counted.
const (
	leadCreated    = "lead.created"
	messageCreated = "message.created"
)

func newTables() Tables {
	return Tables{Leads: map[LeadKey]*Lead{}, Messages: map[MessageKey]*Message{}, Told: map[string]int{}}
}

// addMessage puts a message into the table, and its lead, and returns the row.
func (t Tables) addMessage(m Message) *Message {
	key := LeadKey{m.Account, m.Customer}
	lead := t.Leads[key]
	if lead == nil {
		lead = &Lead{}
		t.Leads[key] = lead
		t.Told[leadCreated]++
	}
	if m.FromCustomer {
		lead.Unread++
	}
	t.Told[messageCreated]++
	row := &m
	t.Messages[MessageKey{m.Account, m.MID}] = row
	return row
}

// Counts are the sizes of the tables.
type Counts struct{ Leads, Messages, Edited, Unsent, Reactions, Read, Unread int }

// Counts counts what the tables hold.
func (t Tables) Counts() Counts {
	n := Counts{Leads: len(t.Leads), Messages: len(t.Messages)}
	for _, m := range t.Messages {
		for _, c := range []struct {
			is bool
			n  *int
		}{{m.Edits > 0, &n.Edited}, {m.Unsent, &n.Unsent}, {m.Reaction != "", &n.Reactions}, {m.Read, &n.Read}} {
			if c.is {
				*c.n++
			}
		}
	}
	for _, lead := range t.Leads {
		n.Unread += lead.Unread
	}
	return n
}

func (n Counts) String() string {
	return fmt.Sprintf("%d leads, %d messages (%d edited, %d unsent, %d with a reaction, %d read by the customer), %d unread",
		n.Leads, n.Messages, n.Edited, n.Unsent, n.Reactions, n.Read, n.Unread)
}

// Diff says, a line each and in a fixed order, where got differs from t: rows
// that are missing, that nobody sent, and that differ. It is empty if the tables
// are equal.
func (t Tables) Diff(got Tables) []string {
	leads := diff(t.Leads, got.Leads, func(want, got *Lead) string { return differing("unread", want.Unread, got.Unread) })
	told := diff(t.Told, got.Told, func(want, got int) string { return differing("count of live events", want, got) })
	return slices.Concat(leads, diff(t.Messages, got.Messages, (*Message).diff), told)
}

func (m *Message) diff(got *Message) string {
	return strings.Join(slices.DeleteFunc([]string{
		differing("customer", m.Customer, got.Customer),
		differing("from the customer", m.FromCustomer, got.FromCustomer),
		differing("sent at", m.SentAt.UnixMilli(), got.SentAt.UnixMilli()),
		differing("text", clip(m.shown()), clip(got.shown())),
		differing("edits", m.Edits, got.Edits),
		differing("unsent", m.Unsent, got.Unsent),
		differing("read", m.Read, got.Read),
		differing("reaction", m.Reaction, got.Reaction),
	}, func(s string) bool { return s == "" }), ", ")
}

// shown is what a reader sees of the text: nothing of one that was taken back.
func (m *Message) shown() string {
	if m.Unsent {
		return ""
	}
	return m.Text
}

// clip keeps the length of a long text in sight.
func clip(text string) string {
	if len(text) <= 80 {
		return text
	}
	return fmt.Sprintf("%.60s… (%d bytes)", text, len(text))
}

func diff[K comparable, V any](want, got map[K]V, compare func(want, got V) string) []string {
	var lines []string
	for key, row := range want {
		other, ok := got[key]
		if !ok {
			lines = append(lines, fmt.Sprintf("%T %v is missing", key, key))
		} else if d := compare(row, other); d != "" {
			lines = append(lines, fmt.Sprintf("%T %v: %s", key, key, d))
		}
	}
	for key := range maps.Keys(got) {
		if _, ok := want[key]; !ok {
			lines = append(lines, fmt.Sprintf("%T %v: nobody sent it", key, key))
		}
	}
	slices.Sort(lines)
	return lines
}

func differing[T comparable](what string, want, got T) string {
	if want == got {
		return ""
	}
	return fmt.Sprintf("%s is %#v, want %#v", what, got, want)
}
