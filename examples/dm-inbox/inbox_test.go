package main

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

var noon = time.UnixMilli(1_700_000_000_000)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestMessageIsStoredAndTold(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "aWd.1", "What is the price? 😀 שלום"))
		r.expect(`SELECT tenant, account_id, user_id, status, unread, intent FROM leads`, "acme|17841400000000001|9001|open|1|order")
		r.expect(`SELECT mid, direction, kind, text, at FROM messages`, "aWd.1|in|message|What is the price? 😀 שלום|1700000000000")
		r.expect(`SELECT type, tenant FROM live_events WHERE live_event_id <> ''`,
			"lead.created|acme", "lead.updated|acme", "lead.updated|acme", "message.created|acme")
	})
}
