package meta_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound/meta"
)

var types = []string{
	meta.TypeMessage, meta.TypeEcho, meta.TypeUnsent, meta.TypeEdited, meta.TypeReaction, meta.TypeRead, meta.TypeDelivered,
	meta.TypePostback, meta.TypeOptin, meta.TypeReferral, meta.TypeStoryMention, meta.TypeStoryReply, meta.TypeComment,
	meta.TypeMention, meta.TypeHandover, meta.TypeWhatsAppMessage, meta.TypeWhatsAppStatus, meta.TypeUnknown,
}

// Whatever comes: no panic, no item lost or made up, and each with all that an
// event needs.
func FuzzParse(f *testing.F) {
	bodies, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range bodies {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, body := range []string{
		"", "null", "[]", `[[[]]]`, `"\\\""`, `{"entry":{"messaging":{"message":{}}}}`, "{\"\\u0065ntry\" : [ { \"standby\":[1 , 2\t]} ] }",
		`{"entry":[{"messaging":[1],"messaging":[2,3],"field":"x"}]}`, `{"entry":[{"changes":[{"value":{"messaging_product":"whatsapp","messages":{},"statuses":[null],"errors":null}}]}]}`,
		`{"object":"whatsapp_business_account","entry":[{"value":{"messages":[]}}]}`, `{"entry":[{"changes":[{"value":{"sender":{},"message":{}}}]}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkBody(t, body) })
}

// Bytes changed at random are seldom JSON, so here the shape is what is random:
// Meta's words, at any place, with any value.
func TestParseOfAnyShape(t *testing.T) {
	words := rapid.SampledFrom(strings.Fields("object entry id uid time messaging standby changes field value sender recipient user_ref timestamp " +
		"message mid text is_echo is_deleted attachments type payload url reply_to story reaction action read watermark delivery mids postback optin " +
		"referral pass_thread_control app-roles policy-enforcement policy_enforcement message-edit message_edit num_edit from comment_id created_time " +
		"verb item messages statuses errors contacts wa_id metadata phone_number_id messaging_product status code dance x\\u002fy"))
	scalar := rapid.SampledFrom([]string{
		"null", "true", "0", "1", "-1.5e3", "1700000000", `"1700000000045"`, `"page"`, `"instagram"`, `"whatsapp_business_account"`, `"whatsapp"`,
		`"feed"`, `"comments"`, `"comment"`, `"mentions"`, `"edited"`, `"story_mention"`, `"a"`, `"\"\\"`, `"\ud83d\ude00\/\u0000"`, "90071992547409931", "[]", "{}",
	})
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t"})
	rapid.Check(t, func(t *rapid.T) {
		var write func(b *bytes.Buffer, depth int)
		write = func(b *bytes.Buffer, depth int) {
			shape := rapid.IntRange(0, 9).Draw(t, "shape")
			b.WriteString(space.Draw(t, "space"))
			switch n := rapid.IntRange(0, 5).Draw(t, "members"); {
			case depth == 0 || shape == 0:
				b.WriteString(scalar.Draw(t, "scalar"))
			case shape < 4:
				for i := range n {
					b.WriteByte("[,"[min(i, 1)])
					write(b, depth-1)
				}
				b.WriteString([]string{"[]", "]"}[min(n, 1)])
			default:
				for i := range n {
					b.WriteByte("{,"[min(i, 1)])
					fmt.Fprintf(b, "\"%s\"%s:", words.Draw(t, "name"), space.Draw(t, "space"))
					write(b, depth-1)
				}
				b.WriteString([]string{"{}", "}"}[min(n, 1)])
			}
			b.WriteString(space.Draw(t, "space"))
		}
		var entry bytes.Buffer
		write(&entry, 6)
		object := rapid.SampledFrom([]string{"page", "instagram", "whatsapp_business_account", "user"}).Draw(t, "object")
		checkBody(t, fmt.Appendf(nil, `{"object":%q,"entry":%s}`, object, &entry))
		var list bytes.Buffer
		write(&list, 4)
		name := rapid.SampledFrom([]string{"messaging", "standby", "changes"}).Draw(t, "list")
		checkBody(t, fmt.Appendf(nil, `{"object":%q,"entry":[{"id":"1","time":1,%q:[%s,{"field":"messages","value":%s}]}]}`, object, name, &list, &list))
	})
}

// tester is a [testing.T] or a [rapid.T].
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func checkBody(t tester, body []byte) {
	t.Helper()
	whole := bytes.Clone(body)
	webhook, err := meta.Parse(body)
	if (err == nil) != json.Valid(body) {
		t.Fatalf("error %v of a body whose validity is %t", err, json.Valid(body))
	}
	if err != nil {
		return
	}
	if want := countItems(readTree(t, body)); len(webhook.Items)+webhook.Left != want {
		t.Errorf("%d items and %d left, want %d, of %s", len(webhook.Items), webhook.Left, want, whole)
	}
	clear(body) // the items must not live in it
	for _, item := range webhook.Items {
		checkItem(t, whole, item)
	}
}

func checkItem(t tester, body []byte, item meta.Item) {
	t.Helper()
	if !slices.Contains(types, item.Type) || len(posthaste.ValidateType("type", item.Type)) > 0 {
		t.Errorf("type %q", item.Type)
	}
	isPlain := !strings.ContainsFunc(item.Key, func(r rune) bool { return r <= ' ' || r > '~' })
	if item.Key == "" || len(item.Key) > posthaste.MaxIdempotencyKeyBytes || !isPlain || !strings.HasPrefix(item.Key, string(item.Platform)+"/") {
		t.Errorf("key %q", item.Key)
	}
	e, err := meta.DecodeEnvelope(item.Payload)
	if err != nil || e.Type != item.Type || !e.At.Equal(item.At) || e.Asset != item.Asset || !bytes.Contains(body, e.Item) {
		t.Errorf("envelope %+v of %+v, error %v", e, item, err)
	}
	found, errs := view(item.Payload)
	if (found == nil) != (item.Type == meta.TypeUnknown) {
		t.Errorf("a %s is read as %+v, errors %v", item.Type, found, errs)
	}
	if item.Type == meta.TypeUnknown && len(item.Warnings) == 0 {
		t.Errorf("an unknown item without a warning: %s", item.Payload)
	}
}

// A second reading of a body, with encoding/json and nothing in common with the
// package's own: a tree that keeps the order and the repetition of members.
type node struct {
	members  []member // of an object
	elements []node   // of a list
	isObject bool
	isList   bool
	value    any // of anything else; nil for null
}

type member struct {
	name  string
	value node
}

func readTree(t tester, body []byte) node {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return readNode(t, d)
}

func readNode(t tester, d *json.Decoder) (n node) {
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch token {
	case json.Delim('{'):
		n.isObject = true
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			n.members = append(n.members, member{strings.ReplaceAll(strings.ReplaceAll(name.(string), "\x00", "\ufffd"), "-", "_"), readNode(t, d)})
		}
	case json.Delim('['):
		n.isList = true
		for d.More() {
			n.elements = append(n.elements, readNode(t, d))
		}
	default:
		n.value = token
		return n
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n node) isNull() bool { return !n.isObject && !n.isList && n.value == nil }

func (n node) get(name string) (found node) {
	for _, m := range n.members {
		if m.name == name && !m.value.isNull() {
			found = m.value
		}
	}
	return found
}

// list is what n stands for as a list: nothing, itself, or its elements.
func (n node) list() []node {
	switch {
	case n.isNull():
		return nil
	case n.isList:
		return n.elements
	}
	return []node{n}
}

func countItems(body node) (count int) {
	for _, request := range body.list() {
		if request.get("entry").isNull() {
			count++
		}
		for _, entry := range request.get("entry").list() {
			lists, isKnown := 0, false
			for _, m := range entry.members {
				switch {
				case m.value.isNull():
				case m.name == "messaging" || m.name == "standby":
					lists, isKnown = lists+len(m.value.list()), true
				case m.name == "changes":
					isKnown = true
					for _, change := range m.value.list() {
						lists += countChange(request, change)
					}
				}
			}
			if !entry.get("field").isNull() || !entry.get("value").isNull() {
				lists, isKnown = lists+countChange(request, entry), true
			}
			if count += lists; !isKnown {
				count++
			}
		}
	}
	return count
}

// countChange: one, except that a change of WhatsApp holds three lists.
func countChange(request, change node) (count int) {
	value := change.get("value")
	if value.isObject && (request.get("object").value == "whatsapp_business_account" || value.get("messaging_product").value == "whatsapp") {
		for _, m := range value.members {
			if m.name == "messages" || m.name == "statuses" || m.name == "errors" {
				count += len(m.value.list())
			}
		}
	}
	return max(count, 1)
}
