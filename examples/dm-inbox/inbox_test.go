package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
	"github.com/posthaste-dev/posthaste/internal/testdb"
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

// TestOneMessageManyTimes: the same message in 50 requests at once, each with
// another one beside it so that the requests differ.
func TestOneMessageManyTimes(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				r.send("instagram", metatest.Messaging(acmeInstagram, at(i), chat.Text(at(0), "same", "hi"), chat.Text(at(i), fmt.Sprint("m", i), "hello")))
			})
		}
		wg.Wait()
		r.settled()
		r.expect(`SELECT count(*) FROM leads`, "1")
		r.expect(`SELECT unread FROM leads`, "51")
		r.expect(`SELECT count(*) FROM messages`, "51")
		r.expect(`SELECT count(*) FROM live_events WHERE type = 'lead.created'`, "1")
		r.expect(`SELECT count(*), count(DISTINCT data) FROM live_events WHERE type = 'message.created'`, "51|51")
		r.expect(`SELECT count(*) FROM live_events WHERE live_event_id = ''`, "0")
	})
}

// TestOneMessageInManyHandlers is the race behind the engine's keys: 50 events of the same
// message, as when Meta repeats one after the keys are forgotten.
func TestOneMessageInManyHandlers(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { r.sendItem("meta.message", chat.Text(at(0), "same", "hi")) })
		}
		wg.Wait()
		r.settled()
		r.expect(`SELECT user_id, unread FROM leads`, "9001|1")
		r.expect(`SELECT mid, text FROM messages`, "same|hi")
		r.expect(`SELECT type FROM live_events`, "lead.created", "lead.updated", "lead.updated", "message.created")
	})
}

// TestAnyOrder sends all that can happen to messages in many orders. The tables end the same.
func TestAnyOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		var want []string
		for round := range 8 {
			customer := fmt.Sprint("90", round)
			chat := metatest.Chat{Account: acmePage, Customer: customer}
			mid := func(name string) string { return fmt.Sprintf("m_%d_%s", round, name) }
			items := []any{
				chat.Text(at(0), mid("a"), "first"), chat.Edited(at(10), mid("a"), "second", 1), chat.Edited(at(20), mid("a"), "third", 2),
				chat.React(at(30), mid("a"), "love", "❤"), chat.React(at(31), mid("a"), "smile", "😀"),
				chat.Text(at(1), mid("b"), "oops"), chat.Edited(at(11), mid("b"), "oh no", 1), chat.Unsent(at(12), mid("b")),
				chat.StoryMention(at(2), mid("c"), "https://cdn.example/c"), chat.React(at(13), mid("c"), "love", "❤"), chat.Unreact(at(14), mid("c")),
				chat.StoryMention(at(3), mid("d"), "https://cdn.example/d"), chat.Unsent(at(15), mid("d")),
				chat.Echo(at(4), mid("e"), "our answer"), chat.Echo(at(50), mid("f"), "unread"),
				chat.Text(at(7), mid("g"), "first"), chat.Edited(at(16), mid("g"), "second", 0), chat.Edited(at(17), mid("g"), "third", 0),
				chat.Read(at(40), at(5)), chat.Read(at(41), at(6)), chat.Seen(at(42), mid("f")),
			}
			if round > 0 {
				rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			}
			for _, item := range items { // handled at once, and the last rounds one by one
				r.send("page", metatest.Messaging(acmePage, at(60), item))
				if round >= 5 {
					r.settled()
				}
			}
			r.settled()
			got := r.state(customer)
			if round == 0 {
				want = got
				t.Logf("%s", strings.Join(want, "\n"))
				continue
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], fmt.Sprintf("m_%d_", round), "m_0_")
			}
			if !slices.Equal(got, want) {
				t.Errorf("round %d:\n%s\nwant\n%s", round, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		want0 := "message|m_0_a|third|2|0|0"
		if !slices.Contains(want, want0) || !slices.Contains(want, "message|m_0_g|third|0|0|0") || !slices.Contains(want, "message|m_0_b||1|1700000012000|0") ||
			!slices.Contains(want, "message|m_0_e|our answer|0|0|1700000040000") || !slices.Contains(want, "mention|m_0_d|") {
			t.Errorf("state: %q", want)
		}
	})
}

// state is all that is stored of a customer, without what tells when.
func (r *rig) state(customer string) (all []string) {
	r.t.Helper()
	for name, query := range map[string]string{
		"message":  `SELECT mid, text, edit_number, unsent_at, read_at FROM messages`,
		"edit":     `SELECT mid, number, text FROM edits`,
		"reaction": `SELECT mid, emoji, removed, at FROM reactions`,
		"read":     `SELECT mid, up_to, at FROM reads`,
		"unsend":   `SELECT mid, at FROM unsends`,
		"mention":  `SELECT mid, url FROM story_mentions`,
		"lead":     `SELECT unread, status, last_at FROM (SELECT *, id AS lead_id FROM leads) AS l`,
	} {
		for _, row := range r.table(query+` WHERE lead_id = (SELECT id FROM leads WHERE user_id = $1)`, customer) {
			all = append(all, name+"|"+row)
		}
	}
	slices.Sort(all)
	return all
}

// TestWaitingIsAppliedAndTold: what comes before its message shows once that is there.
func TestWaitingIsAppliedAndTold(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.React(at(5), "m", "love", "❤"), chat.Edited(at(6), "m", "better", 1), chat.Seen(at(7), "m"))
		r.expect(`SELECT type FROM live_events`, "lead.created")
		r.items("instagram", acmeInstagram, chat.Text(at(0), "m", "good"))
		r.expect(`SELECT text, read_at FROM messages`, "better|1700000007000")
		r.expect(`SELECT type FROM live_events WHERE type LIKE 'message.%' OR type LIKE 'reaction.%'`,
			"message.created", "message.edited", "message.read_by_customer", "reaction.changed")
		// Each is told with the ids of its own event.
		r.expect(`SELECT count(*) FROM live_events l JOIN edits e ON e.event_id = l.event_id AND e.correlation_id = l.correlation_id WHERE l.type = 'message.edited'`, "1")
		r.expect(`SELECT count(*) FROM live_events l JOIN reactions x ON x.event_id = l.event_id WHERE l.type = 'reaction.changed'`, "1")
	})
}

func TestUnknownAndBroken(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		stranger := metatest.Chat{Account: "42", Customer: "9001"}
		r.items("instagram", "42", stranger.Text(at(0), "x", "hi"))
		r.items("instagram", "0", stranger.Text(at(0), "y", "the test button"))
		if n := len(r.logs.with(t, "msg", "skipped: nobody has connected this account")); n != 2 {
			t.Errorf("%d lines", n)
		}
		// A thousand items, of which two are broken and some are odd.
		chat := metatest.Chat{Account: globexInstagram, Customer: "9002"}
		items := []any{json.RawMessage(`"nonsense"`), json.RawMessage(`{"message":{"text":"of nobody"}}`),
			json.RawMessage(`{"sender":{"id":9002},"recipient":{"id":"17841400000000002"},"timestamp":"1700000000","message":{"mid":77,"text":"numbers"}}`)}
		for i := range 996 {
			items = append(items, chat.Text(at(i), fmt.Sprint("b", i), strings.Repeat("ש😀", 20)))
		}
		items = append(items, chat.Text(at(500), "large", strings.Repeat("é", 64<<10)))
		r.send("instagram", metatest.Messaging(globexInstagram, at(0), items...))
		r.settled()
		r.expect(`SELECT tenant, unread FROM leads`, "globex|998")
		r.expect(`SELECT at, text FROM messages WHERE mid = '77'`, "1700000000000|numbers")
		r.expect(`SELECT length(text) FROM messages WHERE mid = 'large'`, "65536")
	})
}

// TestReplayChangesNothing: neither the engine's replay of a delivery nor a resend, which
// is another delivery, does anything twice.
func TestReplayChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "m", "the price?"), chat.React(at(1), "m", "love", "❤"), chat.Edited(at(2), "m", "the price!", 1),
			chat.StoryMention(at(3), "s", "https://cdn.example/s"), chat.Seen(at(4), "m"), chat.Unsent(at(5), "s"), chat.Postback(at(6), "", "Start", "START"))
		tables := []string{"leads", "messages", "edits", "reactions", "reads", "unsends", "story_mentions", "live_events"}
		before := map[string][]string{}
		for _, table := range tables {
			before[table] = r.table(`SELECT * FROM ` + table)
		}
		accepted := len(r.logs.with(t, "msg", "told"))
		resent := r.resendAll()
		r.settled()
		for _, table := range tables {
			if got := r.table(`SELECT * FROM ` + table); !slices.Equal(got, before[table]) {
				t.Errorf("%s was changed:\n%q\nfrom\n%q", table, got, before[table])
			}
		}
		if resent < 7 || accepted == 0 || len(r.logs.with(t, "msg", "told")) != accepted {
			t.Errorf("%d resent, %d told, then %d", resent, accepted, len(r.logs.with(t, "msg", "told")))
		}
	})
}

// TestUntoldIsToldLater: a program that died between the commit and the live
// events sends them when the handler is called again, once.
func TestUntoldIsToldLater(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "m", "hi"))
		if _, err := r.store.write.ExecContext(t.Context(), `UPDATE live_events SET live_event_id = '' WHERE type = 'message.created'`); err != nil {
			t.Fatal(err)
		}
		r.resendAll()
		r.settled()
		r.expect(`SELECT count(*) FROM live_events WHERE live_event_id = ''`, "0")
	})
}

func TestReopened(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "a", "hi"))
		anna := r.browser("anna")
		anna.post("/conversations/"+r.leadID("9001")+"/close", nil, 204)
		r.expect(`SELECT status, unread, reopened FROM leads`, "closed|0|0")
		r.items("instagram", acmeInstagram, chat.Echo(at(1), "b", "bye"))
		r.expect(`SELECT status, unread, reopened FROM leads`, "closed|0|0")
		r.items("instagram", acmeInstagram, chat.Text(at(2), "c", "wait"))
		r.expect(`SELECT status, unread, reopened FROM leads`, "open|1|1")
	})
}

// TestOneIDLeadsThrough: the webhook's id is in every row, every live event and every line.
func TestOneIDLeadsThrough(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "m", "the price?"))
		ids := r.table(`SELECT DISTINCT correlation_id FROM live_events UNION SELECT correlation_id FROM messages UNION SELECT correlation_id FROM leads`)
		if len(ids) != 1 {
			t.Fatalf("ids: %q", ids)
		}
		seen := map[string]int{}
		for _, line := range r.logs.with(t, "correlation_id", ids[0]) {
			seen[fmt.Sprint(line["msg"], " ", line["type"])]++
		}
		want := map[string]int{
			"event accepted meta.webhook": 1, "event accepted meta.message": 1, "source answered meta.webhook": 1, "attempt settled meta.message": 1,
			"a new lead meta.message": 1, "stored a message meta.message": 1, "classified message.created": 1,
			"told lead.created": 1, "told message.created": 1, "told lead.updated": 2, "event accepted lead.created": 1, "event accepted message.created": 1,
			"event accepted lead.updated": 2, "attempt settled message.created": 1,
		}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("lines: %v\nwant   %v", seen, want)
		}
	})
}

// TestTwoReplicas: two programs on one database take the same traffic at once, and a
// browser at one of them is told of what the other one stored.
func TestTwoReplicas(t *testing.T) {
	database := testdb.Postgres(t)
	one := newRig(t, database, func(c *Config) { c.Replica = "one" })
	two := newRig(t, database, func(c *Config) { c.Replica, c.MasterKey, c.AdminKey = "two", one.config.MasterKey, one.config.AdminKey })
	live := two.browser("anna").live(t.Context(), "")
	chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
	var wg sync.WaitGroup
	for i := range 40 {
		for _, r := range []*rig{one, two} {
			wg.Go(func() {
				r.send("instagram", metatest.Messaging(acmeInstagram, at(i), chat.Text(at(i), fmt.Sprint("m", i), "hi"), chat.React(at(i), fmt.Sprint("m", i), "love", "❤")))
			})
			wg.Go(func() { r.sendItem("meta.message", chat.Text(at(i), fmt.Sprint("m", i), "hi")) })
		}
	}
	wg.Wait()
	one.eventually("all is told", func() bool {
		return slices.Equal(one.table(`SELECT count(*) FROM live_events WHERE type IN ('message.created', 'reaction.changed') AND live_event_id <> ''`), []string{"80"})
	})
	one.expect(`SELECT unread, user_id FROM leads`, "40|9001")
	seen := map[string]int{}
	for seen["acme message.created"] < 40 || seen["acme reaction.changed"] < 40 {
		seen[(<-live)[1]]++
	}
	if seen["acme message.created"] != 40 || seen["acme reaction.changed"] != 40 || seen["acme lead.created"] != 1 {
		t.Errorf("seen: %v", seen)
	}
}
