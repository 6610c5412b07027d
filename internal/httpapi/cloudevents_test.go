package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/go-cmp/cmp"
)

// TestCloudEventsSDK sends with the official SDK, in both modes, and has the SDK
// read what a receiver gets: the same event.
func TestCloudEventsSDK(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	sdk, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(s.url+"/v1/events"), cloudevents.WithHeader("Authorization", "Bearer "+s.key))
	must(t, err)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	event := cloudevents.NewEvent()
	event.SetType("com.example.invoice.paid")
	event.SetSource("https://example.com/invoices?customer=7")
	event.SetSubject("inv 42 é")
	event.SetTime(time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC))
	event.SetDataSchema("https://example.com/schema")
	event.SetExtension("traceparent", trace)
	event.SetExtension("sequence", 7)
	for name, send := range map[string]func(context.Context) context.Context{
		"binary": cloudevents.WithEncodingBinary, "structured": cloudevents.WithEncodingStructured,
	} {
		for _, data := range []struct {
			contentType string
			data        any
		}{
			{cloudevents.ApplicationJSON, map[string]any{"amount": 4200, "text": "<é>"}}, {cloudevents.TextPlain, "text"}, {"application/octet-stream", []byte("\x00\xff")}, {"", nil},
		} {
			event := event.Clone()
			event.SetID(name + " " + data.contentType)
			if data.data != nil {
				must(t, event.SetData(data.contentType, data.data))
			}
			for range 2 { // the second one is the first again
				if result := sdk.Send(send(t.Context()), event); !cloudevents.IsACK(result) {
					t.Fatalf("%s, %q: %v", name, data.contentType, result)
				}
			}
			arrival := arrived(t, arrivals)
			got, err := cloudevents.NewEventFromHTTPRequest(&http.Request{Header: arrival.header, Body: io.NopCloser(bytes.NewReader(arrival.body))})
			must(t, err)
			must(t, got.Validate())
			got.DataEncoded, got.DataBase64 = got.Data(), event.DataBase64 // in binary mode nothing says how JSON would show the data
			sent, _ := event.MarshalJSON()
			read, _ := got.MarshalJSON()
			if name == "binary" { // where all extensions are strings
				sent = bytes.Replace(sent, []byte(`"sequence":7`), []byte(`"sequence":"7"`), 1)
			}
			if diff := cmp.Diff(string(sent), string(read)); diff != "" {
				t.Errorf("%s, %q: the receiver's SDK reads another event: %s", name, data.contentType, diff)
			}
			kept := s.get("/v1/events/" + arrival.header.Get("Webhook-Id")).want(200)
			if key := event.Source() + " " + event.ID(); kept.text("idempotency_key") != key || kept.text("type") != event.Type() || kept.text("traceparent") != trace || arrival.header.Get("Traceparent") != trace {
				t.Errorf("%s: kept %s, arrived %v", name, kept.body, arrival.header)
			}
		}
	}
	if n := len(s.get("/v1/events").ids()); n != 8 {
		t.Errorf("%d events, want 8", n)
	}
	event.SetID("refused")
	event.SetType("no type of ours")
	if result := sdk.Send(t.Context(), event); !cloudevents.IsNACK(result) {
		t.Errorf("a bad type: %v", result)
	}
}

var ceHeaders = []string{"ce-id: 1", "ce-source: /s", "ce-specversion: 1.0", "ce-type: a.b"}

const ceBody = `{"id":"1","source":"/s","specversion":"1.0","type":"a.b"}`

func TestCloudEventsPassAsTheyCame(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	const body = "{ not JSON"
	s.post("/v1/events", body, append(ceHeaders[1:], `ce-id: "a\"b%20%c3%a9 100%25"`, "ce-traceparent: nonsense", "ce-odd: %zz é", "Content-Type: text/x; a=b", "Content-Encoding: br",
		"Posthaste-Forward-X-Trace: abc", "Posthaste-Order-Key: o")...).want(202)
	a := arrived(t, arrivals)
	for name, want := range map[string]string{
		"Ce-Id": `"a\"b%20%c3%a9 100%25"`, "Ce-Source": "/s", "Ce-Specversion": "1.0", "Ce-Type": "a.b", "Ce-Traceparent": "nonsense", "Ce-Odd": "%zz é",
		"Content-Type": "text/x; a=b", "Content-Encoding": "br", "X-Trace": "abc", "Traceparent": "",
	} {
		if a.header.Get(name) != want {
			t.Errorf("%s arrived as %q, want %q", name, a.header.Get(name), want)
		}
	}
	if string(a.body) != body {
		t.Errorf("arrived: %q", a.body)
	}
	if kept := s.get("/v1/events/" + a.header.Get("Webhook-Id")); kept.text("idempotency_key") != `/s a"b é 100%` || kept.text("order_key") != "o" || kept.text("type") != "a.b" {
		t.Errorf("kept %s", kept.body)
	}

	const structured = "\n{ \"id\" :\"\\u0061\",\t\"source\":\"urn:x\", \"specversion\":\"1.0\",\"type\":\"t\",\r\n\"data\": {\"id\":1,\"id\":1e400} , \"null\":null,\"type2\":[1]}  "
	contentType := "Application/CloudEvents+JSON ; charset=UTF-8"
	s.post("/v1/events", structured, "Content-Type: "+contentType, "Posthaste-Event-Type: t").want(202)
	a = arrived(t, arrivals)
	if string(a.body) != structured || a.header.Get("Content-Type") != contentType || a.header.Get("Posthaste-Event-Type") != "t" || a.header.Get("Ce-Id") != "" {
		t.Errorf("arrived %q, %v", a.body, a.header)
	}
	if kept := s.get("/v1/events/" + a.header.Get("Webhook-Id")); kept.text("idempotency_key") != "urn:x a" {
		t.Errorf("kept %s", kept.body)
	}
	// Both modes name the same event, and have the same data.
	s.post("/v1/events", "", ceHeaders...).want(202)
	s.post("/v1/events", "", append(ceHeaders, "Idempotency-Key: /s 1", "Posthaste-Event-Type: a.b")...).want(200)
	s.post("/v1/events", ceBody, "Content-Type: application/cloudevents+json").want(200)
	s.post("/v1/events?type=a.b", strings.Replace(ceBody, `"1"`, `"2"`, 1), "Content-Type: application/cloudevents+json", "ce-id: 2", "ce-type: a.b").want(202)
}

// Optional attributes have to be as the specification says: a receiver's SDK would
// refuse the event for good.
func TestCloudEventOptionalAttributes(t *testing.T) {
	s := start(t)
	const structured = "Content-Type: application/cloudevents+json"
	with := func(members string) string { return strings.TrimSuffix(ceBody, "}") + "," + members + "}" }
	s.post("/v1/events", with(`"time":"yesterday","subject":"","dataschema":"/relative","datacontenttype":"json"`), structured).
		problem(422, "invalid", "datacontenttype", "dataschema", "subject", "time")
	s.post("/v1/events", with(`"time":1,"subject":"x","dataschema":"https://example.com/a b"`), structured).problem(422, "invalid", "dataschema", "time")
	s.post("/v1/events", "x", append(ceHeaders, "ce-time: 2026-11-29 12:00:00Z", "ce-subject: ", "ce-dataschema: schema")...).
		problem(422, "invalid", "Ce-Dataschema", "Ce-Subject", "Ce-Time")
	batch := s.post("/v1/events/batch", "["+with(`"time":""`)+"]", "Content-Type: application/cloudevents-batch+json").want(200)
	if batch.text("results", 0, "error", "errors", 0, "field") != "time" {
		t.Errorf("%s", batch.body)
	}

	s.post("/v1/events", with(`"time":"2026-11-29t12:00:00.123456789+01:00","subject":"é","dataschema":"urn:x:y","datacontenttype":"text/x; a=b"`), structured).want(202)
	s.post("/v1/events", with(`"time":null,"subject":null,"dataschema":null,"datacontenttype":null`), structured, "Posthaste-Event-Type: a.b").want(200)
}

// The binary and the structured form of one event are one event; other data under its id
// is a mistake of the sender.
func TestCloudEventFormsAreOneEvent(t *testing.T) {
	s := start(t)
	const structured = "Content-Type: application/cloudevents+json"
	for id, forms := range map[string]struct{ contentType, body, members, other string }{
		"json":     {"application/json", `{"a": [1, 2]}`, `"datacontenttype":"application/json","data":{ "a":[1,2] }`, `"data":{"a":[1,3]}`},
		"default":  {"application/json", `1`, `"data":1`, `"data":2`},
		"text":     {"text/plain", "a\n\"b\"", `"datacontenttype":"text/plain","data":"a\n\"b\""`, `"datacontenttype":"text/plain","data":"a"`},
		"bytes":    {"image/x", "\x00\xff", `"datacontenttype":"image/x","data_base64":"AP8="`, `"datacontenttype":"image/x","data_base64":"AAA="`},
		"string":   {"application/json", `"x"`, `"data":"x"`, `"data":"y"`},
		"suffix":   {"application/x+json", "[ ]", `"datacontenttype":"application/x+json","data":[]`, `"datacontenttype":"application/x+json","data":{}`},
		"no bytes": {"text/plain", "", `"datacontenttype":"text/plain"`, `"datacontenttype":"text/plain","data":"x"`},
	} {
		begin := `{"specversion":"1.0","type":"a.b","source":"/forms","id":"` + id + `",`
		binary := []string{"ce-specversion: 1.0", "ce-type: a.b", "ce-source: /forms", "ce-id: " + strings.ReplaceAll(id, " ", "%20"), "Content-Type: " + forms.contentType}
		s.post("/v1/events", forms.body, binary...).want(202)
		s.post("/v1/events", begin+forms.members+"}", structured).want(200)
		s.post("/v1/events", begin+forms.other+"}", structured).problem(409, "idempotency_mismatch")
		s.post("/v1/events", forms.body, binary...).want(200)
	}
}

func TestCloudEventTimes(t *testing.T) {
	s := start(t)
	for value, status := range map[string]int{
		"2016-12-31T23:59:60Z": 202, "2016-12-31T18:59:60.5-05:00": 202, "2026-11-29t12:00:00z": 202,
		"2026-11-29T23:59:60Z": 422, "2016-12-31T12:59:60Z": 422, "2016-12-31T23:58:60Z": 422, "2026-11-29T12:00:61Z": 422,
		"2026-11-29T12:00:00,5Z": 422, "2026-11-29T1:00:00Z": 422, "2026-11-29T12:00:00": 422, "2026-02-30T12:00:00Z": 422,
	} {
		s.post("/v1/events", "x", "ce-specversion: 1.0", "ce-type: a.b", "ce-source: /times", "ce-id: "+value, "ce-time: "+value).want(status)
	}
	// What is undone has to be text, also of an extension.
	s.post("/v1/events", "x", append(ceHeaders, "ce-subject: %ff", "ce-mine: a%00b")...).problem(422, "invalid", "Ce-Mine", "Ce-Subject")
}

func TestCloudEventKeys(t *testing.T) {
	s := start(t)
	long := strings.Repeat("x", 300)
	ids := map[string]string{}
	for _, pair := range [][2]string{
		{"a", "b c"}, {"a", "b"}, {"ab", ""}, {"a", "bc"}, {"ab", "c"}, {"a", " b"}, {"a", "b "}, {"a", long}, {"a" + long, "x"}, {"a", long + " x"}, {long, "a"}, {"a", "é"}, {"sha256:a", "b"},
	} {
		body := fmt.Sprintf(`{"id":%q,"source":%q,"specversion":"1.0","type":"a"}`, pair[1], pair[0])
		r := s.post("/v1/events", body, "Content-Type: application/cloudevents+json")
		if pair[1] == "" {
			r.problem(422, "invalid", "id")
			continue
		}
		id := r.want(202).text("id")
		key := s.get("/v1/events/" + id).text("idempotency_key")
		if ids[key] != "" {
			t.Errorf("%.60q has the key of %s", pair, ids[key])
		}
		ids[key] = id
		if again := s.post("/v1/events", body, "Content-Type: application/cloudevents+json").want(200); again.text("id") != id {
			t.Errorf("%.60q is stored twice", pair)
		}
	}
}

func TestBadCloudEvents(t *testing.T) {
	s := start(t)
	without := func(i int, more ...string) []string {
		return append(append(append([]string{}, ceHeaders[:i]...), ceHeaders[i+1:]...), more...)
	}
	for _, c := range []struct {
		path    string
		headers []string
		code    string
		fields  []string
	}{
		{"", []string{"ce-other: x"}, "invalid", []string{"Ce-Id", "Ce-Source", "Ce-Specversion", "Ce-Type"}},
		{"", []string{"ce-other: x", "Posthaste-Event-Type: a.b"}, "invalid", []string{"Ce-Id", "Ce-Source", "Ce-Specversion", "Ce-Type"}},
		{"", without(0, "ce-id: "), "invalid", []string{"Ce-Id"}},
		{"", without(0, "ce-id: 1", "ce-id: 1"), "invalid", []string{"Ce-Id"}},
		{"", without(0, "ce-id: \xff"), "invalid", []string{"Ce-Id"}},
		{"", without(1, "ce-source: a b"), "invalid", []string{"Ce-Source"}},
		{"", without(1, "ce-source: a%20b"), "invalid", []string{"Ce-Source"}},
		{"", without(1, "ce-source: http://[x"), "invalid", []string{"Ce-Source"}},
		{"", without(2, "ce-specversion: 0.3"), "invalid", []string{"Ce-Specversion"}},
		{"", without(3, "ce-type: a b", "ce-specversion: 2"), "invalid", []string{"Ce-Specversion", "Ce-Type"}},
		{"", append(ceHeaders, "Posthaste-Event-Type: other"), "invalid", []string{"Ce-Type"}},
		{"?type=other", ceHeaders, "invalid", []string{"Ce-Type"}},
		{"?type=other", append(ceHeaders, "Posthaste-Event-Type: third"), "invalid", []string{"Ce-Type", "type"}},
		{"", append(ceHeaders, "Idempotency-Key: other"), "invalid", []string{"Idempotency-Key"}},
		{"", append(ceHeaders, "ce-large: "+strings.Repeat("x", 20000)), "invalid", []string{"Ce-Large"}},
		{"", append(ceHeaders, "ce-one: "+strings.Repeat("x", 9000), "ce-two: "+strings.Repeat("x", 9000)), "invalid", []string{"Ce-*"}},
		{"", []string{"Content-Type: application/cloudevents+xml"}, "unsupported", []string{"Content-Type"}},
		{"", []string{"Content-Type: application/cloudevents"}, "unsupported", []string{"Content-Type"}},
		{"?type=a", []string{"Content-Type: application/CloudEvents-Batch+json"}, "invalid", []string{"Content-Type"}},
	} {
		s.post("/v1/events"+c.path, "x", c.headers...).problem(422, c.code, c.fields...)
	}
	for _, c := range []struct {
		body, fields string
		headers      []string
	}{
		{body: `{}`, fields: "id source specversion type"},
		{body: `{"id":1,"source":[],"specversion":1.0,"type":null}`, fields: "id source specversion type"},
		{body: `{"ID":"1","source":"","specversion":"1","type":"a b"}`, fields: "id source specversion type"},
		{body: `{"id":"\ud800","source":"\u0000","specversion":"1.0","type":"a"}`, fields: "id source"},
		{body: strings.Replace(ceBody, "{", `{"id":"2",`, 1), fields: "id"},
		{body: strings.Replace(ceBody, "{", `{"data":1,"data_base64":"YQ==",`, 1), fields: "data_base64"},
		{body: strings.Replace(ceBody, "{", `{"data":1,"data":2,`, 1), fields: "data"},
		{body: `[` + ceBody + `]`, fields: ""}, {body: `7`, fields: ""}, {body: `null`, fields: ""},
		{body: ceBody, headers: []string{"Posthaste-Event-Type: other", "Posthaste-X: y"}, fields: "Posthaste-X type"},
		{body: ceBody, headers: []string{"ce-type: other", "ce-id: 2"}, fields: "Ce-Id Ce-Type"},
		{body: ceBody, headers: []string{"Idempotency-Key: other"}, fields: "Idempotency-Key"},
	} {
		s.post("/v1/events", c.body, append(c.headers, "Content-Type: application/cloudevents+json")...).problem(422, "invalid", strings.Split(c.fields, " ")...)
	}
	s.post("/v1/events", ceBody, "Content-Type: application/cloudevents+json", "Content-Encoding: gzip").problem(422, "unsupported", "Content-Encoding")
	for _, body := range []string{"", "{", ceBody + "x", `{"id":"` + "\xff" + `"}`} {
		s.post("/v1/events", body, "Content-Type: application/cloudevents+json").problem(400, "unreadable")
	}
	s.post("/v1/events", `{"data":"`+strings.Repeat("x", maxPayloadBytes)+`"}`, "Content-Type: application/cloudevents+json").problem(413, "too_large")
	if n := len(s.get("/v1/events").ids()); n != 0 {
		t.Errorf("%d events were stored", n)
	}
}

func TestCloudEventsBatch(t *testing.T) {
	s := start(t)
	url, arrivals := receiver(t, status(200))
	s.endpoint(url, "")
	const contentType = "Content-Type: application/cloudevents-batch+json; charset=utf-8"
	odd := `{ "id":"odd" ,"source":"/s","specversion":"1.0","type":"t","data":[ 1.0 , "\u00e9" ] }`
	got := s.batch(" [ "+ceBody+",\n"+odd+" , 7, {\"id\":\"x\"}, "+ceBody+" ] ", contentType)
	statuses := make([]int, len(got))
	for i, r := range got {
		statuses[i] = r.Status
	}
	if fmt.Sprint(statuses) != "[202 202 422 422 200]" || got[4].ID != got[0].ID || len(got[3].Error.Errors) != 3 {
		t.Errorf("%+v", got)
	}
	for range 2 {
		a := arrived(t, arrivals)
		want := map[string]string{got[0].ID: ceBody, got[1].ID: odd}[a.header.Get("Webhook-Id")]
		if string(a.body) != want || a.header.Get("Content-Type") != "application/cloudevents+json" {
			t.Errorf("arrived %q as %q, want %q", a.body, a.header.Get("Content-Type"), want)
		}
		event, err := cloudevents.NewEventFromHTTPRequest(&http.Request{Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))})
		if err != nil || event.Source() != "/s" {
			t.Errorf("the SDK reads %v, %v", event, err)
		}
	}
	if got := s.batch("[]", contentType); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	s.post("/v1/events/batch", ceBody, contentType).problem(422, "invalid", "")
	s.post("/v1/events/batch", "["+ceBody, contentType).problem(400, "unreadable")
	s.post("/v1/events/batch", "["+strings.Repeat(ceBody+",", 1000)+ceBody+"]", contentType).problem(413, "too_large")
}
