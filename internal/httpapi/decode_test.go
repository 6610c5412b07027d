package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

func TestDecodeLaysOverDefaults(t *testing.T) {
	in, defaults := newCreateEndpoint(), newCreateEndpoint()
	err := decode([]byte(` {"url":"https://example.com/","headers":{"X-A":"é\u0041"},"enabled":false,
		"retry":{"schedule":["1s","2m"],"jitter":0.5,"timeout":null},"secret":"s","max_in_flight":3,
		"filter":"","rate_limit":null,"ordered":false,"breaker":null} `), &in, &defaults, laterOnEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	want := newCreateEndpoint()
	want.URL, want.Headers, want.Enabled, want.MaxInFlight = "https://example.com/", map[string]string{"X-A": "éA"}, false, 3
	want.Retry.Schedule = []posthaste.Duration{posthaste.Duration(time.Second), posthaste.Duration(2 * time.Minute)}
	want.Retry.Jitter = 0.5
	want.Breaker = nil // null is a value here
	secret := "s"
	want.Secret = &secret
	if !reflect.DeepEqual(in, want) {
		t.Errorf("got %+v\nwant %+v", in, want)
	}
}

func TestDecodeMerges(t *testing.T) {
	current := newPatchEndpoint()
	current.URL, current.Description, current.MaxInFlight = "https://example.com/", "old", 7
	current.Headers = map[string]string{"X-A": "1", "X-B": "2"}
	current.Signature = posthaste.Signature{Scheme: "hex", Headers: posthaste.SignatureHeaders{Timestamp: "X-T", Signature: "X-S"}}
	shared := current.Headers
	in, defaults := current, newPatchEndpoint()
	err := decode([]byte(`{"headers":{"X-A":null,"X-C":"3"},"description":null,"max_in_flight":null,"event_types":["a"],
		"signature":{"headers":{"id":"X-I","signature":null}},"retry":null}`), &in, &defaults, laterOnEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	want := current
	want.Headers, want.Description, want.MaxInFlight = map[string]string{"X-B": "2", "X-C": "3"}, "", 256
	want.EventTypes = []string{"a"}
	want.Signature.Headers = posthaste.SignatureHeaders{ID: "X-I", Timestamp: "X-T"}
	if !reflect.DeepEqual(in, want) {
		t.Errorf("got %+v\nwant %+v", in, want)
	}
	if len(shared) != 2 || shared["X-A"] != "1" {
		t.Errorf("the map of the stored definition was changed: %v", shared)
	}
}

func TestDecodeUnreadable(t *testing.T) {
	for _, body := range []string{"", " \n", "{", `{"url":}`, `{"url":"x",}`, "{} {}", "{'url':'x'}", "\xff", "{\"url\":\"\xff\"}", "\ufeff{}", "NaN", `{"a":01}`, strings.Repeat("[", 20000)} {
		in, defaults := newCreateEndpoint(), newCreateEndpoint()
		err := decode([]byte(body), &in, &defaults, nil)
		if posthaste.CodeOf(err) != posthaste.CodeUnreadable {
			t.Errorf("%.20q: %v, want code unreadable", body, err)
		}
	}
}

// Every field of an endpoint with each type that it does not have.
func TestDecodeWrongTypes(t *testing.T) {
	values := map[string]string{"string": `"x y"`, "number": `1.5`, "boolean": `true`, "array": `[{}]`, "object": `{"?":{}}`}
	takes := map[string]string{ // the type that is right, for each path; "" takes none of the values above
		"url": "string", "description": "string", "secret": "string", "enabled": "boolean", "max_in_flight": "",
		"event_types": "", "headers": "", "signature": "", "signature.scheme": "string", "signature.headers": "",
		"signature.headers.id": "string", "signature.headers.delivery_id": "string", "signature.headers.timestamp": "string",
		"signature.headers.event": "string", "signature.headers.signature": "string",
		"retry": "", "retry.schedule": "", "retry.jitter": "number", "retry.timeout": "", "retry.deadline": "", "retry.transient": "",
	}
	for path, right := range takes {
		for kind, value := range values {
			keys := strings.Split(path, ".")
			body := value
			for i := len(keys) - 1; i >= 0; i-- {
				body = fmt.Sprintf(`{%q:%s}`, keys[i], body)
			}
			in, defaults := newCreateEndpoint(), newCreateEndpoint()
			err := decode([]byte(body), &in, &defaults, laterOnEndpoint)
			if kind == right {
				if err != nil {
					t.Errorf("%s: %v", body, err)
				}
				continue
			}
			e, ok := errors.AsType[*posthaste.Error](err)
			if !ok || e.Code != posthaste.CodeInvalid || len(e.Problems) != 1 || !strings.HasPrefix(e.Problems[0].Field, path) || e.Problems[0].Hint == "" {
				t.Errorf("%s: %+v, want one problem at %s with a hint", body, err, path)
			}
		}
	}
}

func TestDecodeCollectsAllProblems(t *testing.T) {
	in, defaults := newCreateEndpoint(), newCreateEndpoint()
	err := decode([]byte(`{"URL":"x","url":1,"url":"https://example.com/","typo":{"deep":[]},"event_types":["a",null,3],
		"retry":{"schedule":["1s","soon",5,{}],"rps":"5","jitter":1e999,"max":1},"headers":{"X":1},"max_in_flight":1.0,
		"filter":"payload.a > 1","rate_limit":{"rps":"50","burst":1.5},"ordered":true,"breaker":7,"uid":7,"metadata":{"a":1,"b":"c"}}`),
		&in, &defaults, laterOnEndpoint)
	e, ok := errors.AsType[*posthaste.Error](err)
	if !ok || e.Code != posthaste.CodeInvalid {
		t.Fatalf("%v", err)
	}
	got := map[string]posthaste.Code{}
	for _, p := range e.Problems {
		got[p.Field] = p.Code
		if p.Message == "" || p.Hint == "" {
			t.Errorf("without message or hint: %+v", p)
		}
	}
	want := map[string]posthaste.Code{
		"URL": "", "url": "", "typo": "", "event_types[1]": "", "event_types[2]": "", "retry.schedule[1]": "", "retry.schedule[2]": "",
		"retry.schedule[3]": "", "retry.jitter": "", "retry.max": "", "headers.X": "", "max_in_flight": "",
		"retry.rps": "", "filter": "unsupported", "rate_limit.rps": "", "rate_limit.burst": "", "ordered": "",
		"breaker": "", "uid": "", "metadata.a": "",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if len(e.Problems) != len(want)+1 { // url: twice wrong
		t.Errorf("%d problems", len(e.Problems))
	}
}

func TestDecodeOnlyUnsupported(t *testing.T) {
	in, defaults := newCreateEndpoint(), newCreateEndpoint()
	err := decode([]byte(`{"filter":"a"}`), &in, &defaults, laterOnEndpoint)
	if posthaste.CodeOf(err) != posthaste.CodeUnsupported {
		t.Errorf("%v, want code unsupported", err)
	}
}

func TestDecodeNotAnObject(t *testing.T) {
	for _, body := range []string{"[]", `"x"`, "1", "true"} {
		in, defaults := newCreateEndpoint(), newCreateEndpoint()
		if err := decode([]byte(body), &in, &defaults, nil); posthaste.CodeOf(err) != posthaste.CodeInvalid {
			t.Errorf("%s: %v, want code invalid", body, err)
		}
	}
}

func TestDecodeBoundsItsAnswer(t *testing.T) {
	var body bytes.Buffer
	body.WriteString(`{"` + strings.Repeat("n", 5000) + `":1`)
	for i := range 500 {
		fmt.Fprintf(&body, `,"f%d":1`, i)
	}
	body.WriteString("}")
	in, defaults := newCreateEndpoint(), newCreateEndpoint()
	e, ok := errors.AsType[*posthaste.Error](decode(body.Bytes(), &in, &defaults, nil))
	if !ok || len(e.Problems) != maxDecodeProblems || len(e.Problems[0].Field) > 110 {
		t.Errorf("%+v", e)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"url":"https://example.com/","retry":{"schedule":["1s"],"jitter":0.1},"headers":{"a":"b","c":null},"enabled":false}`))
	f.Add([]byte(`{"signature":{"scheme":"hex","headers":{"id":"x"}},"event_types":["*"],"max_in_flight":3,"secret":null}`))
	f.Add([]byte(`{"url":1,"url":2,"retry":null,"x":[[]],"":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, defaults := newCreateEndpoint(), newCreateEndpoint()
		err := decode(body, &in, &defaults, laterOnEndpoint)
		code := posthaste.CodeOf(err)
		if json.Valid(body) != (code != posthaste.CodeUnreadable) && code != posthaste.CodeUnreadable {
			t.Fatalf("valid JSON %q: %v", body, err)
		}
		if err != nil {
			return
		}
		// What was understood, written out and read again, is the same.
		again, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		second := newCreateEndpoint()
		if err := decode(again, &second, &defaults, laterOnEndpoint); err != nil || !reflect.DeepEqual(in, second) {
			t.Fatalf("%q: read %+v, then %+v (%v)", body, in, second, err)
		}
	})
}
