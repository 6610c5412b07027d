package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

func TestComplete(t *testing.T) {
	parser, err := kong.New(&grammar{}, kong.Name("posthaste"))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"":                                "serve quickstart receiver send events deliveries replay endpoints tail sources tenants outbox migrate verify config completion version",
		"se":                              "serve send",
		"end":                             "endpoints",
		"endpoints ":                      "list get create put update delete pause resume test rotate-secret",
		"endpoints re":                    "resume",
		"endpoints ro":                    "rotate-secret",
		"completion ":                     "bash zsh fish", // not the hidden one
		"completion w":                    "",
		"deliveries list --st":            "--status",
		"deliveries list --status ":       "pending delivering delivered dead",
		"deliveries list --status de":     "delivering delivered dead",
		"deliveries list --status=de":     "--status=delivering --status=delivered --status=dead",
		"deliveries list --status = de":   "delivering delivered dead", // as bash splits it
		"deliveries list --status =":      "pending delivering delivered dead",
		"deliveries list --server dead -": "--help --server --tenant --json --limit --since --until --status --endpoint --event --type",
		"serve --log-format ":             "text json",
		"serve --allow-http ":             "", // needs no value
		"serve --allow-h":                 "--allow-http",
		"serve --db ":                     "", // a file: for the shell
		"serve --outbox":                  "--outbox --outbox-poll --outbox-batch",
		"serve --otlp":                    "", // hidden
		"serve --no-such=":                "",
		"migrate --db":                    "--db --db-direct", // of the command it stands for
		"send -- --":                      "",
		"send invoice.paid --k":           "--key",
		"endpoints update --no-e":         "--no-enabled",
		"receiver --fail":                 "--fail-first --fail-share",
		"nonsense ":                       "serve quickstart receiver send events deliveries replay endpoints tail sources tenants outbox migrate verify config completion version",
	} {
		var got []string
		for _, found := range complete(parser.Model.Node, strings.Split(line, " ")) {
			got = append(got, found.word)
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(strings.FieldsSeq(want))) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, found := range complete(parser.Model.Node, []string{"endpoints", "create", "-"}) {
		if found.help == "" || strings.ContainsAny(found.help, "\n\t") {
			t.Errorf("%s: help %q, want one line", found.word, found.help)
		}
	}
	if got := complete(parser.Model.Node, nil); len(got) == 0 {
		t.Error("no words at all: nothing is found")
	}
}

func TestReadTime(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Time{
		"": {}, "2h": now.Add(-2 * time.Hour), "0s": now, "2026-11-28T13:00:00+01:00": now.Add(-24 * time.Hour),
	} {
		if got, err := readTime("--since", value, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", value, got, err, want)
		}
	}
	for _, value := range []string{"yesterday", "-2h", "2026-11-28", "12"} {
		if _, err := readTime("--since", value, now); err == nil || !strings.Contains(err.Error(), "2026-11-29T12:00:00Z") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestReadHeaders(t *testing.T) {
	got, err := readHeaders([]string{"x-trace: a:b, c", "X-Empty:"})
	if err != nil || len(got) != 2 || got["X-Trace"] != "a:b, c" || got["X-Empty"] != "" {
		t.Errorf("%v, %v", got, err)
	}
	for _, lines := range [][]string{{"x"}, {": y"}, {"X-A: 1", "x-a: 2"}} {
		if _, err := readHeaders(lines); err == nil {
			t.Errorf("%q is taken", lines)
		}
	}
}

func TestUpdatePatch(t *testing.T) {
	text, no := "", false
	c := endpointsUpdate{Patch: `{"url":"https://a/","retry":{"timeout":"5s"}}`, URL: "https://b/", Description: &text, Enabled: &no}
	got, err := c.patch(Streams{})
	if err != nil || len(got) != 4 || got["url"] != "https://b/" || got["description"] != "" || got["enabled"] != false {
		t.Errorf("%v, %v", got, err)
	}
	for _, c := range []endpointsUpdate{{}, {Patch: "[]"}, {Patch: "{"}, {Patch: "{}"}} {
		if _, err := c.patch(Streams{}); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}
