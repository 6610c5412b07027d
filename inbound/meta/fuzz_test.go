package meta_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := bytes.Clone(body)
		webhook, err := meta.Parse(body)
		if (err == nil) != json.Valid(body) {
			t.Fatalf("error %v of a body whose validity is %t", err, json.Valid(body))
		}
		if err != nil {
			return
		}
		if want := countItems(readTree(t, body)); len(webhook.Items)+webhook.Left != want {
			t.Errorf("%d items and %d left, want %d", len(webhook.Items), webhook.Left, want)
		}
		clear(body) // the items must not live in it
		for _, item := range webhook.Items {
			checkItem(t, whole, item)
		}
	})
}

func checkItem(t *testing.T, body []byte, item meta.Item) {
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

func readTree(t *testing.T, body []byte) node {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return readNode(t, d)
}

func readNode(t *testing.T, d *json.Decoder) (n node) {
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
