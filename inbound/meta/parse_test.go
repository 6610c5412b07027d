package meta_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posthaste-dev/posthaste/inbound/meta"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

var update = flag.Bool("update", false, "write the golden files")

// Each body of testdata has a .golden file with what becomes of it: read the
// difference before committing an update.
func TestParseGolden(t *testing.T) {
	bodies, err := filepath.Glob("testdata/*.json")
	if err != nil || len(bodies) == 0 {
		t.Fatalf("no bodies: %v", err)
	}
	for _, name := range bodies {
		t.Run(filepath.Base(name), func(t *testing.T) {
			body, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			webhook, err := meta.Parse(body)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(webhook)
			golden := strings.TrimSuffix(name, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("items differ (-want +got):\n%s", diff)
			}
		})
	}
}

func describe(w meta.Webhook) string {
	var b strings.Builder
	fmt.Fprintf(&b, "object %q\n", w.Object)
	for _, warning := range w.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	for _, item := range w.Items {
		fmt.Fprintf(&b, "\n%s\n", item.Type)
		fmt.Fprintf(&b, "  key      %s\n", item.Key)
		fmt.Fprintf(&b, "  at       %s\n", item.At.Format(time.RFC3339Nano))
		fmt.Fprintf(&b, "  asset    %q on %s\n", item.Asset, item.Platform)
		for _, warning := range item.Warnings {
			fmt.Fprintf(&b, "  warning  %s\n", warning)
		}
		fmt.Fprintf(&b, "  payload  %s\n", item.Payload)
	}
	return b.String()
}

func TestParseRefusesOnlyWhatIsNotJSON(t *testing.T) {
	for _, body := range []string{"", " ", "{", "hello", `{"object":"page"} x`, `{"entry":[}`, strings.Repeat("[", 1<<20)} {
		_, err := meta.Parse([]byte(body))
		if !errors.Is(err, meta.ErrNotJSON) {
			t.Errorf("%.20q: error %v, want ErrNotJSON", body, err)
		}
	}
	for body, items := range map[string]int{
		"null": 0, "[]": 0, "1": 1, `"x"`: 1, "true": 1, "{}": 1, "[1,2]": 2, `{"entry":[]}`: 0, `{"entry":null}`: 1,
		`{"entry":[{"id":"1","messaging":[]}]}`: 0, `[[{"entry":[]}]]`: 1,
	} {
		webhook, err := meta.Parse([]byte(body))
		if err != nil || len(webhook.Items) != items {
			t.Errorf("%q: %d items, error %v; want %d", body, len(webhook.Items), err, items)
		}
		if padded, err := meta.Parse([]byte("\n\t " + body + " ")); err != nil || len(padded.Items) != items {
			t.Errorf("%q between spaces: %d items, error %v; want %d", body, len(padded.Items), err, items)
		}
		if items == 0 && len(webhook.Warnings) == 0 {
			t.Errorf("%q: no item and no warning", body)
		}
	}
}

// The keys say what is the same and what is not: only that is compared.
func TestKeys(t *testing.T) {
	const frame = `{"object":%q,"entry":[{"id":%q,"time":1700000000,"messaging":[%s]}]}`
	in := func(item string) string { return fmt.Sprintf(frame, "instagram", "1784", item) }
	message := func(mid string) string {
		return in(`{"sender":{"id":"9"},"timestamp":1,"message":{"mid":"` + mid + `"}}`)
	}
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"a retry in another batch": {
			in(`{"sender":{"id":"9"},"timestamp":1700000000045,"message":{"mid":"a","text":"x"}}`),
			fmt.Sprintf(`[{"object":"instagram","entry":{"time":1800000000123,"id":1784,"standby":[%s]}}]`,
				`{"timestamp":"1700000000045","message":{"text":"x","mid":"a"},"sender":{"id":"9"}}`), true,
		},
		"a time as text": {
			in(`{"sender":{"id":"9"},"read":{"watermark":1700000000045}}`),
			in(`{"sender":{"id":9},"read":{"watermark":"1700000000045"}}`), true,
		},
		"another message":     {message("a"), message("b"), false},
		"another account":     {message("a"), strings.Replace(message("a"), "1784", "1785", 1), false},
		"another platform":    {message("a"), strings.Replace(message("a"), "instagram", "page", 1), false},
		"a slash in an id":    {message(`a/deleted`), in(`{"message":{"mid":"a","is_deleted":true}}`), false},
		"sent and taken back": {message("a"), in(`{"message":{"mid":"a","is_deleted":true}}`), false},
		"two edits": {
			in(`{"timestamp":1700000000045,"message_edit":{"mid":"a","num_edit":1}}`),
			in(`{"timestamp":1700000000045,"message_edit":{"mid":"a","num_edit":2}}`), false,
		},
		"an edit counted as text": {
			in(`{"timestamp":1700000000045,"message_edit":{"mid":"a","num_edit":1}}`),
			in(`{"timestamp":1700000000046,"message_edit":{"mid":"a","num_edit":"1"}}`), true,
		},
		"edits that nobody counts": {
			in(`{"timestamp":1700000000045,"message_edit":{"mid":"a","num_edit":0}}`),
			in(`{"timestamp":1700000000046,"message_edit":{"mid":"a","num_edit":0}}`), false,
		},
		"reactions of two people": {
			in(`{"sender":{"id":"8"},"timestamp":1700000000045,"reaction":{"mid":"a","action":"react"}}`),
			in(`{"sender":{"id":"9"},"timestamp":1700000000045,"reaction":{"mid":"a","action":"react"}}`), false,
		},
		"set, and set again later": {
			in(`{"sender":{"id":"9"},"timestamp":1700000000045,"reaction":{"mid":"a","action":"react"}}`),
			in(`{"sender":{"id":"9"},"timestamp":1700000000046,"reaction":{"mid":"a","action":"react"}}`), false,
		},
		"an id and a user_ref that look alike": {
			in(`{"sender":{"id":"9"},"timestamp":1700000000045,"optin":{}}`),
			in(`{"sender":{"user_ref":"9"},"timestamp":1700000000045,"optin":{}}`), false,
		},
		"no id, other bytes": {in(`{"message":{"text":"a"}}`), in(`{"message":{"text":"b"}}`), false},
		"no id, same bytes":  {in(`{"message":{"text":"a"}}`), in(`{"message":{"text":"a"}}`), true},
		"ids beyond the limit": {
			message(strings.Repeat("m", 300) + "1"), message(strings.Repeat("m", 300) + "2"), false,
		},
		"the same id beyond the limit": {message(strings.Repeat("m", 300)), message(strings.Repeat("m", 300)), true},
		"edits of a comment that keeps its time": {
			`{"object":"page","entry":[{"id":"1","field":"feed","value":{"item":"comment","verb":"edited","comment_id":"c","created_time":1,"message":"a"}}]}`,
			`{"object":"page","entry":[{"id":"1","field":"feed","value":{"item":"comment","verb":"edited","comment_id":"c","created_time":1,"message":"b"}}]}`, false,
		},
		"accounts beyond the limit": {
			fmt.Sprintf(frame, "page", strings.Repeat("1", 300)+"1", `{"message":{"mid":"a"}}`),
			fmt.Sprintf(frame, "page", strings.Repeat("1", 300)+"2", `{"message":{"mid":"a"}}`), false,
		},
	} {
		a, b := only(t, []byte(c.a)), only(t, []byte(c.b))
		if (a.Key == b.Key) != c.same {
			t.Errorf("%s: keys %q and %q, want the same: %t", name, a.Key, b.Key, c.same)
		}
	}
}

// only parses a body of one item.
func only(t *testing.T, body []byte) meta.Item {
	t.Helper()
	webhook, err := meta.Parse(body)
	if err != nil || len(webhook.Items) != 1 {
		t.Fatalf("%s: %d items, error %v; want one", body, len(webhook.Items), err)
	}
	return webhook.Items[0]
}

func TestTimes(t *testing.T) {
	second := time.Unix(1700000000, 0).UTC()
	for in, want := range map[string]time.Time{
		`1700000000`:                 second,
		`"1700000000"`:               second,
		`1700000000045`:              second.Add(45 * time.Millisecond),
		`"1700000000045"`:            second.Add(45 * time.Millisecond),
		`1.7e9`:                      second,
		`99999999999`:                time.Unix(99999999999, 0).UTC(),
		`100000000000`:               time.UnixMilli(100000000000).UTC(),
		`"2023-11-14T22:13:20+0000"`: second,
		`"2023-11-14T22:13:20Z"`:     second,
		`0`:                          {},
		`-1`:                         {},
		`99999999999999999999`:       {},
		`253402300800000`:            {},
		`"soon"`:                     {},
		`{}`:                         {},
		`true`:                       {},
	} {
		item := only(t, []byte(`{"object":"page","entry":[{"id":"1","messaging":[{"timestamp":`+in+`,"message":{"mid":"a"}}]}]}`))
		if !item.At.Equal(want) {
			t.Errorf("timestamp %s is %s, want %s", in, item.At, want)
		}
		if e, err := meta.DecodeEnvelope(item.Payload); err != nil || !e.At.Equal(want) {
			t.Errorf("timestamp %s is %s in the payload, want %s; error %v", in, e.At, want, err)
		}
	}
}

// batch is a body of n messages, as Meta would send a backlog.
func batch(n int) []byte {
	at := time.UnixMilli(1700000000000)
	var items []any
	for i := range n {
		chat := metatest.Chat{Account: "17841400000000001", Customer: fmt.Sprint(9000 + i%50)}
		items = append(items, chat.Text(at.Add(time.Duration(i)*time.Millisecond), fmt.Sprintf("aWdfZAG1faXRlbToxOklHTWVzc2FnZAUlE%06d", i),
			"Hallo, ist das Sofa noch zu haben? Ich käme am Freitag vorbei 😀"))
	}
	return metatest.Encode("instagram", metatest.Messaging("17841400000000001", at, items...))
}

// One broken item of 1,000 leaves the other 999, wherever it stands.
func TestBrokenItemInBatch(t *testing.T) {
	for _, broken := range []string{
		`null`, `17`, `"x"`, `[]`, `{}`, `{"message":7}`, `{"message":{"mid":{}}}`, `{"sender":[],"recipient":5,"timestamp":{},"read":null}`,
		`{"message":{"attachments":{"type":{"type":[]}},"reply_to":[]}}`, `{"reaction":[1,2,3]}`, `{"message":"` + strings.Repeat(`\\\"`, 1000) + `"}`,
	} {
		body := batch(1000)
		at := bytes.Index(body, []byte(`"mid":"aWdfZAG1faXRlbToxOklHTWVzc2FnZAUlE000500"`))
		start := bytes.LastIndex(body[:at], []byte(`{"sender"`))
		end := start + bytes.Index(body[start:], []byte(`}},`)) + 2
		body = append(append(append([]byte{}, body[:start]...), broken...), body[end:]...)
		webhook, err := meta.Parse(body)
		if err != nil || len(webhook.Items) != 1000 {
			t.Fatalf("%.40s: %d items, error %v; want 1000", broken, len(webhook.Items), err)
		}
		keys := map[string]bool{}
		for i, item := range webhook.Items {
			keys[item.Key] = true
			if i != 500 && (item.Type != meta.TypeMessage || len(item.Warnings) > 0) {
				t.Errorf("%.40s: item %d is a %s with %q", broken, i, item.Type, item.Warnings)
			}
		}
		if len(keys) != 1000 || len(webhook.Items[500].Warnings) == 0 {
			t.Errorf("%.40s: %d keys, warnings %q", broken, len(keys), webhook.Items[500].Warnings)
		}
	}
}

// Texts come through whole: emoji, right-to-left, 64 kB of them.
func TestTexts(t *testing.T) {
	chat := metatest.Chat{Account: "1", Customer: "2"}
	for _, text := range []string{
		"", "😀👩‍👩‍👧‍👦", "שלום עולם \u200f", "مرحبا", `"\/\\"` + "\t\n", "</script><!--", "\u2028\u2029", strings.Repeat("😀é/", 16<<10),
	} {
		item := only(t, metatest.Encode("page", metatest.Messaging("1", time.UnixMilli(1700000000000), chat.Text(time.UnixMilli(1700000000000), "m", text))))
		message, err := meta.DecodeMessage(item.Payload)
		if err != nil || message.Text != text {
			t.Errorf("%.40q came through as %.40q, error %v", text, message.Text, err)
		}
	}
}

// Whatever a body repeats, what becomes of it stays in proportion to its size.
func TestAbsurdBodies(t *testing.T) {
	long, many := strings.Repeat("x", 1<<20), strings.Repeat("0,", 1<<20)+"0"
	entry := func(id, rest string) string { return `{"object":"page","entry":[{"id":"` + id + `",` + rest + `}]}` }
	whatsApp := `"changes":[{"field":"f","value":{"messaging_product":"whatsapp","metadata":{"a":"` + long + `"},` +
		`"contacts":[{"wa_id":"1","b":"` + long + `"}],"messages":[` + strings.Repeat(`{"from":"1"},`, 20_000) + `0]}}]`
	for name, c := range map[string]struct {
		body  string
		items int
		left  int
	}{
		"many items":           {entry("1", `"messaging":[`+many+`]`), meta.MaxItems, 1<<20 + 1 - meta.MaxItems},
		"a long id":            {entry(long, `"messaging":[`+strings.Repeat("{},", 20_000)+`0]`), meta.MaxItems, 20_001 - meta.MaxItems},
		"a long escaped id":    {entry(strings.Repeat("é", 64), `"messaging":[0]`), 1, 0},
		"long names":           {entry("1", `"changes":[{"field":"`+long+`"},{"field":"feed","value":{"item":"`+long+`"}}],"`+long+`":1`), 2, 0},
		"long metadata":        {entry("1", whatsApp), meta.MaxItems, 20_001 - meta.MaxItems},
		"one member, often":    {entry("1", `"messaging":[{`+strings.Repeat(`"message":{},"read":{},`, 50_000)+`"a":1}]`), 1, 0},
		"unknown names, often": {entry("1", strings.Repeat(`"a":1,`, 50_000)+`"messaging":[0]`), 1, 0},
	} {
		webhook, err := meta.Parse([]byte(c.body))
		if err != nil || len(webhook.Items) != c.items || webhook.Left != c.left {
			t.Errorf("%s: %d items, %d left, error %v; want %d and %d", name, len(webhook.Items), webhook.Left, err, c.items, c.left)
		}
		total, warnings := 0, len(webhook.Warnings)
		for _, item := range webhook.Items {
			total += len(item.Payload) + len(item.Key) + len(item.Asset)
			warnings = max(warnings, len(item.Warnings))
		}
		if limit := len(c.body) + 1000*len(webhook.Items); total > limit || warnings > 8 {
			t.Errorf("%s: %d bytes of payloads and keys from a body of %d, %d warnings", name, total, len(c.body), warnings)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1, 1000} {
		body := batch(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := meta.Parse(body); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/item")
		})
	}
}

// An item costs its payload, its key and its ids; that must not creep upwards,
// since a batch of 1,000 is answered while the sender waits.
func TestParseAllocates(t *testing.T) {
	body := batch(1000)
	perItem := testing.AllocsPerRun(5, func() {
		if _, err := meta.Parse(body); err != nil {
			t.Error(err)
		}
	}) / 1000
	if perItem > 12 {
		t.Errorf("%.1f allocations for each item, want 12 at most", perItem)
	}
}
