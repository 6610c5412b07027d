// Package sim makes the traffic that Meta would send to an inbox, and knows what
// the inbox must hold in the end.
//
// A [Plan] is made of a seed: conversations in which customers write, edit,
// unsend, react and read, and the [Tables] that follow from them. [Plan.Send]
// delivers it the way Meta does: signed, in batches of one to a thousand, out of
// order, some of it twice, in other batches each time, again and again until it
// is answered with 200; and in between what no inbox should fall for: wrong
// signatures, bodies cut short, items that are broken, accounts nobody connected.
// [Inbox.Load] reads the tables of examples/dm-inbox, and [Tables.Diff] compares them
// with the plan's.
package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// The objects of Meta's bodies.
const (
	instagram = "instagram"
	page      = "page"
	whatsApp  = "whatsapp_business_account"
)

// Options say what to plan. The zero value of each field has a meaning.
type Options struct {
	// Events is how many different items there are, duplicates not counted.
	// Default: 20,000.
	Events int
	// Seed makes another plan. The same options give the same plan.
	Seed uint64
	// Instagram and Pages are the ids of the accounts that the inbox has
	// connected; nothing is planned for a platform that has none.
	Instagram, Pages []string
	// Customers is how many people write, over all accounts. Default: one for each
	// 40 events.
	Customers int
	// Start is when the first conversation begins. Default: a day ago, in whole
	// seconds, since some of Meta's times are.
	Start time.Time
}

// Plan is the traffic of one run and what must come of it.
type Plan struct {
	// Tables is what the inbox must hold when all has been sent.
	Tables Tables
	// Kinds counts the items by what they are, the odd ones included.
	Kinds map[string]int

	items []item
	seed  uint64
}

// item is an element of messaging[], standby[] or changes[].
type item struct {
	object, account string
	list            string // messaging, standby or changes
	at              time.Time
	json            json.RawMessage
}

// NewPlan writes the conversations. It fails if there is nobody to write to.
func NewPlan(o Options) (*Plan, error) {
	if o.Events <= 0 {
		o.Events = 20_000
	}
	if o.Customers <= 0 {
		o.Customers = max(1, o.Events/40)
	}
	if o.Start.IsZero() {
		o.Start = time.Now().Add(-24 * time.Hour)
	}
	if len(o.Instagram)+len(o.Pages) == 0 {
		return nil, fmt.Errorf("plan the traffic: no account to write to")
	}
	w := &writer{
		rand: rand.New(rand.NewPCG(o.Seed, 6)),
		plan: &Plan{Tables: newTables(), Kinds: map[string]int{}, seed: o.Seed},
		now:  o.Start.Truncate(time.Second).UTC(),
	}
	for i := range o.Customers {
		w.chats = append(w.chats, w.newChat(o, i))
	}
	for len(w.plan.items) < o.Events {
		w.now = w.now.Add(time.Second)
		w.step()
	}
	return w.plan, nil
}

func (w *writer) newChat(o Options, i int) *chat {
	c := &chat{object: instagram}
	if n := i % (len(o.Instagram) + len(o.Pages)); n < len(o.Instagram) {
		c.Account = o.Instagram[n]
	} else {
		c.object, c.Account = page, o.Pages[n-len(o.Instagram)]
	}
	c.Customer = fmt.Sprintf("%d%017d", 7+i%3, w.rand.Int64N(1e17)) // beyond 2^53, as Meta's are
	return c
}

// add puts an item on record, the way Meta might spell it.
func (w *writer) add(c *chat, kind string, it metatest.Item) {
	list := "messaging"
	if w.rand.IntN(40) == 0 {
		list = "standby" // another app holds the conversation; its messages are as real
	}
	w.put(kind, item{object: c.object, account: c.Account, list: list, at: w.now, json: w.spell(it)})
}

func (w *writer) put(kind string, it item) {
	w.plan.items = append(w.plan.items, it)
	w.plan.Kinds[kind]++
}

// spell writes an item as JSON. One in twenty has its timestamp as a string or in
// seconds, and the number of its edit as a string: all of that has been seen.
func (w *writer) spell(it metatest.Item) json.RawMessage {
	var v any = it
	if w.rand.IntN(20) == 0 {
		odd := struct {
			metatest.Item
			Timestamp any `json:"timestamp,omitempty"`
		}{Item: it}
		switch {
		case it.Timestamp == 0:
		case w.rand.IntN(2) == 0:
			odd.Timestamp = fmt.Sprint(it.Timestamp)
		default:
			odd.Timestamp = it.Timestamp / 1000
		}
		if it.Edit != nil {
			odd.Edit["num_edit"] = fmt.Sprint(it.Edit["num_edit"])
		}
		v = odd
	}
	return encode(v)
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sim: encode an item: %v", err)) // strings and numbers of our own
	}
	return text
}
