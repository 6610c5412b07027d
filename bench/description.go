//go:build linux

package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed engines/*.json
var builtIn embed.FS

// description says how to start an engine, how to point it at the receiver and
// how to hand it an event. It is one JSON file. Every string may hold ${name}:
//
//	bin          the engine's binary
//	listen       a free loopback address, host:port
//	database     a PostgreSQL URL or an SQLite file, empty and of this run alone
//	dir          a folder of this run alone
//	admin_key    a random secret
//	master_key   32 random bytes in base64
//	outbox       the PostgreSQL URL of the outbox, with Outbox only
//	receiver     the URL that events must be delivered to
//	type         the events' type, in Send only
//	id, body     the event, in Send only
//
// and what Setup captured.
type description struct {
	Name     string            `json:"name"`
	Database string            `json:"database"` // "postgres", "sqlite" or "" if it has none
	Baseline string            `json:"baseline"` // engine that its ratios are against
	Build    string            `json:"build"`    // Go package of the binary
	Start    []command         `json:"start"`    // its processes
	Ready    string            `json:"ready"`    // URL that answers 2xx once it can take events
	Setup    []request         `json:"setup"`    // requests that register the receiver
	Send     request           `json:"send"`     // request that hands over one event
	Lines    int               `json:"lines"`    // events in one request, in a closed loop: Send's body is repeated for each
	Outbox   int               `json:"outbox"`   // instead of Send: rows a transaction that are enqueued in an outbox
	Counts   map[string]string `json:"counts"`   // queries whose answer must grow by the number of accepted events
}

// command is one process of an engine.
type command struct {
	Cmd []string          `json:"cmd"`
	Env map[string]string `json:"env"`
}

// request is an HTTP request. Capture maps a variable to a dotted path in the
// JSON answer, such as "data.0.id".
type request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Capture map[string]string `json:"capture"`
}

// loadDescription reads a built-in description by its name, or a file if the
// name ends in ".json".
func loadDescription(name string) (description, error) {
	var d description
	raw, err := builtIn.ReadFile("engines/" + name + ".json")
	if strings.HasSuffix(name, ".json") {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		return d, fmt.Errorf("no engine %q: want a .json file or one of %s", name, strings.Join(builtInNames(), ", "))
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("read engine %s: %w", name, err)
	}
	if d.Database != "" && d.Database != "postgres" && d.Database != "sqlite" {
		return d, fmt.Errorf("read engine %s: database %q, want postgres, sqlite or none", name, d.Database)
	}
	return d, nil
}

func builtInNames() []string {
	files, _ := builtIn.ReadDir("engines") // embedded: it cannot fail
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(path.Base(f.Name()), ".json")
	}
	return names
}

// variables are the values that ${name} stands for.
type variables map[string]string

var placeholder = regexp.MustCompile(`\$\{(\w+)\}`)

// expand fills in every ${name}; one without a value is an error, so that a
// misspelt description does not measure nonsense.
func (v variables) expand(s string) (string, error) {
	var unknown []string
	out := placeholder.ReplaceAllStringFunc(s, func(match string) string {
		value, ok := v[match[2:len(match)-1]]
		if !ok {
			unknown = append(unknown, match)
		}
		return value
	})
	if unknown != nil {
		return "", fmt.Errorf("unknown variable %s in %q", strings.Join(unknown, ", "), s)
	}
	return out, nil
}

// expandMap returns the map's values expanded, under the same names.
func (v variables) expandMap(m map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value, err := v.expand(m[name])
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// expandRequest returns the request with all its strings expanded.
func (v variables) expandRequest(r request) (request, error) {
	var err error
	if r.URL, err = v.expand(r.URL); err != nil {
		return r, err
	}
	if r.Body, err = v.expand(r.Body); err != nil {
		return r, err
	}
	r.Headers, err = v.expandMap(r.Headers)
	return r, err
}
