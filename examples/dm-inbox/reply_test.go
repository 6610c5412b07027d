package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// fakeGraph answers with what the test has put down for a text, one after the other,
// and then with success.
type fakeGraph struct {
	mu      sync.Mutex
	answers map[string][]string
	calls   []string // account, token, customer, text
	header  http.Header
	before  func(metadata string) // is called before each answer
}

func (g *fakeGraph) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Recipient struct{ ID string }
		Message   OutgoingMessage
	}
	_ = json.NewDecoder(r.Body).Decode(&request)
	g.mu.Lock()
	defer g.mu.Unlock()
	text := request.Message.Text
	g.calls = append(g.calls, strings.Join([]string{r.URL.Path, r.Header.Get("Authorization"), request.Recipient.ID, text}, "|"))
	if g.before != nil {
		g.before(request.Message.Metadata)
	}
	if left := g.answers[text]; len(left) > 0 {
		g.answers[text] = left[1:]
		for name, values := range g.header {
			w.Header()[name] = values
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(left[0]))
		return
	}
	fmt.Fprintf(w, `{"recipient_id":%q,"message_id":"sent-%d"}`, request.Recipient.ID, len(g.calls))
}

func (g *fakeGraph) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.calls)
}

// onBothWithGraph is onBoth, with one customer who has written, and an agent.
func onBothWithGraph(t *testing.T, test func(t *testing.T, g *fakeGraph, anna *browser)) {
	for name, database := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": testdb.Postgres} {
		t.Run(name, func(t *testing.T) {
			g := &fakeGraph{answers: map[string][]string{}}
			server := httptest.NewServer(g)
			t.Cleanup(server.Close)
			r := newRig(t, database(t), func(c *Config) { c.Graph = server.URL + "/v23.0/" })
			r.items("instagram", acmeInstagram, metatest.Chat{Account: acmeInstagram, Customer: "9001"}.Text(at(0), "q", "a question"))
			test(t, g, r.browser("anna"))
		})
	}
}

func (b *browser) reply(id, text string) {
	b.t.Helper()
	b.post("/conversations/"+b.leadID("9001")+"/reply", url.Values{"text": {text}, "reply_id": {id}}, 204)
}

func TestReplyIsSentOnce(t *testing.T) {
	onBothWithGraph(t, func(t *testing.T, g *fakeGraph, anna *browser) {
		anna.reply("reply_1", "an answer 😀")
		anna.reply("reply_1", "an answer 😀")
		anna.settled()
		if want := "/v23.0/" + acmeInstagram + "/messages|Bearer demo-token|9001|an answer 😀"; g.count() != 1 || g.calls[0] != want {
			t.Errorf("calls: %q", g.calls)
		}
		anna.expect(`SELECT state, mid, agent FROM replies`, "sent|sent-1|anna")
		anna.expect(`SELECT mid, kind, text FROM messages WHERE direction = 'out'`, "sent-1|reply|an answer 😀")
		// Its echo, and a second one, change nothing.
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		echo := chat.Echo(at(9), "sent-1", "an answer 😀")
		echo.Message["metadata"] = "reply_1"
		anna.items("instagram", acmeInstagram, echo)
		anna.expect(`SELECT mid, kind FROM messages WHERE direction = 'out'`, "sent-1|reply")
	})
}

// TestReplyWhoseAnswerIsLost: the message is out, its answer is an error, its echo came before. It is not sent again.
func TestReplyWhoseAnswerIsLost(t *testing.T) {
	onBothWithGraph(t, func(t *testing.T, g *fakeGraph, anna *browser) {
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		g.answers["lost"] = []string{demoErrors["/transient"]}
		g.before = func(metadata string) {
			echo := chat.Echo(at(9), "from-echo", "lost")
			echo.Message["metadata"] = metadata
			anna.send("instagram", metatest.Messaging(acmeInstagram, noon, echo))
			anna.eventually("the echo is stored", func() bool { return len(anna.table(`SELECT mid FROM messages WHERE mid = 'from-echo'`)) == 1 })
		}
		anna.reply("reply_1", "lost")
		anna.settled()
		if g.count() != 1 {
			t.Errorf("calls: %q", g.calls)
		}
		anna.expect(`SELECT state, mid FROM replies`, "sent|from-echo")
		anna.expect(`SELECT mid FROM messages WHERE direction = 'out'`, "from-echo")
	})
}

func TestReplyClasses(t *testing.T) {
	onBothWithGraph(t, func(t *testing.T, g *fakeGraph, anna *browser) {
		g.answers["passes"] = []string{demoErrors["/transient"]}
		g.answers["never"] = []string{demoErrors["/terminal"]}
		g.answers["throttled"] = []string{demoErrors["/rate_limited"]}
		anna.reply("reply_1", "passes")
		anna.reply("reply_2", "never")
		anna.settled()
		anna.expect(`SELECT id, state FROM replies`, "reply_1|sent", "reply_2|failed")
		if page := anna.get("/conversations/"+anna.leadID("9001"), 200); !strings.Contains(page, "outside of allowed window") {
			t.Errorf("the page says nothing of it: %s", page)
		}
		anna.reply("reply_3", "throttled")
		anna.settled()
		anna.expect(`SELECT id, state FROM replies WHERE id = 'reply_3'`, "reply_3|sent")
		anna.expect(`SELECT count(*) FROM accounts WHERE wait_until > 0`, "1")
		if g.count() != 5 {
			t.Errorf("calls: %q", g.calls)
		}
	})
}

// TestThrottledAccountWaits: while Meta's wait lasts, no reply of the account is tried.
func TestThrottledAccountWaits(t *testing.T) {
	onBothWithGraph(t, func(t *testing.T, g *fakeGraph, anna *browser) {
		g.header = http.Header{"X-Business-Use-Case-Usage": {`{"1":[{"type":"messenger","estimated_time_to_regain_access":30}]}`}}
		g.answers["throttled"] = []string{demoErrors["/rate_limited"]}
		anna.reply("reply_1", "throttled")
		anna.eventually("the account waits", func() bool {
			until := time.Now().Add(29 * time.Minute).UnixMilli()
			return len(anna.table(`SELECT id FROM accounts WHERE wait_until > $1`, until)) == 1
		})
		anna.reply("reply_2", "hi")
		anna.eventually("the second waits too", func() bool {
			return len(anna.logs.with(t, "err", errWaiting.Error())) == 1
		})
		if g.count() != 1 {
			t.Errorf("calls: %q", g.calls)
		}
		anna.expect(`SELECT id, state FROM replies`, "reply_1|queued", "reply_2|queued")
	})
}

// TestDeadTokenHoldsReplies: a dead token pauses the account. What is written meanwhile
// is held without a call, and goes out after a reconnection.
func TestDeadTokenHoldsReplies(t *testing.T) {
	onBothWithGraph(t, func(t *testing.T, g *fakeGraph, anna *browser) {
		g.answers["one"] = []string{demoErrors["/reconnect"]}
		anna.reply("reply_1", "one")
		anna.settled()
		anna.reply("reply_2", "two")
		anna.settled()
		anna.expect(`SELECT id, state FROM replies`, "reply_1|held", "reply_2|held")
		if page := anna.get("/", 200); !strings.Contains(page, "is paused: reconnect: Error validating access token") {
			t.Errorf("the page says nothing of it: %s", page)
		}
		if g.count() != 1 {
			t.Errorf("calls: %q", g.calls)
		}
		anna.post("/accounts/"+acmeInstagram+"/reconnect", url.Values{"token": {"new"}}, 303)
		anna.settled()
		anna.expect(`SELECT id, state FROM replies`, "reply_1|sent", "reply_2|sent")
		if g.count() != 3 || !strings.Contains(g.calls[2], "Bearer new") {
			t.Errorf("calls: %q", g.calls)
		}
	})
}

// TestStoredReplyIsResumed: a program that died between storing a reply and sending its event
// does it at the next start.
func TestStoredReplyIsResumed(t *testing.T) {
	onBothWithGraph(t, func(t *testing.T, g *fakeGraph, anna *browser) {
		_, err := anna.store.write.ExecContext(t.Context(), `
			INSERT INTO replies (id, tenant, account_id, lead_id, agent, text, at) VALUES ('reply_1', 'acme', $1, $2, 'anna', 'late', 1)`,
			acmeInstagram, anna.leadID("9001"))
		for range 2 {
			if err == nil {
				err = anna.resumeReplies(t.Context())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		anna.settled()
		anna.expect(`SELECT state FROM replies`, "sent")
		if g.count() != 1 {
			t.Errorf("calls: %q", g.calls)
		}
	})
}

// TestDemoGraph: the stand-in sends the echo and the read.
func TestDemoGraph(t *testing.T) {
	r := newRig(t, "", func(*Config) {})
	r.items("instagram", acmeInstagram, metatest.Chat{Account: acmeInstagram, Customer: "9001"}.Text(at(0), "q", "a question"))
	anna := r.browser("anna")
	anna.reply("reply_1", "an answer")
	r.eventually("the customer has read it", func() bool {
		return len(r.table(`SELECT mid FROM messages WHERE direction = 'out' AND read_at > 0`)) == 1
	})
	r.settled()
	r.expect(`SELECT count(*) FROM messages`, "2")
}
