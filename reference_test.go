package posthaste_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/cli"
	"github.com/posthaste-dev/posthaste/internal/config"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/internal/telemetry"
	"github.com/posthaste-dev/posthaste/signature"
)

// The pages of docs/reference have parts that are made from the code, between a line
// "<!-- generated: NAME -->" and a line "<!-- end -->". The tests below fail where
// such a part is not what the code says. To write the parts anew:
//
//	go test -run '^TestReference' . -update
//
// What people write stays: the text around the parts, and in a table the columns
// that the code knows nothing of. A row that is new has those columns empty, and
// the tests fail until they are filled.
var update = flag.Bool("update", false, "write the generated parts of docs/reference")

const reference = "docs/reference/"

// A part makes the text of a generated part. old is what stands there now.
type part func(t *testing.T, old string) string

// parts are the generated parts, by page and name.
var parts = map[string]map[string]part{
	"errors.md":        {"codes": tabled(codeTable), "members": tabled(memberTable), "problems": tabled(problemTable)},
	"metrics.md":       {"metrics": tabled(metricTable)},
	"log-lines.md":     {"log lines": tabled(logTable)},
	"configuration.md": {"settings": tabled(settingTable), "other variables": tabled(variableTable)},
	"headers.md": {
		"request headers": tabled(requestHeaderTable), "answer headers": tabled(answerHeaderTable), "limits": tabled(limitTable),
		"delivery headers": tabled(deliveryHeaderTable), "standard example": standardExample, "hex example": hexExample,
	},
	"cli.md":    {"commands": commandHelp},
	"limits.md": {}, // people write it: see TestLimits
}

var partMarker = regexp.MustCompile(`(?s)<!-- generated: ([a-z ]+) -->\n(.*?)<!-- end -->`)

func TestReference(t *testing.T) {
	for page, wanted := range parts {
		t.Run(page, func(t *testing.T) {
			before, err := os.ReadFile(reference + page)
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]bool{}
			after := partMarker.ReplaceAllStringFunc(string(before), func(all string) string {
				m := partMarker.FindStringSubmatch(all)
				name, old := m[1], m[2]
				if wanted[name] == nil || found[name] {
					t.Errorf("part %q is not known, or stands there twice", name)
					return all
				}
				found[name] = true
				made := wanted[name](t, old)
				if made != old && !*update {
					t.Errorf("part %q is not what the code says (go test -run '^TestReference' . -update):\n%s", name, difference(old, made))
				}
				return "<!-- generated: " + name + " -->\n" + made + "<!-- end -->"
			})
			for name := range wanted {
				if !found[name] {
					t.Errorf("part %q is missing", name)
				}
			}
			if *update && after != string(before) {
				if err := os.WriteFile(reference+page, []byte(after), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// difference lists the lines that only one of two texts has.
func difference(old, made string) string {
	var out strings.Builder
	for _, side := range []struct{ sign, text, other string }{{"- ", old, made}, {"+ ", made, old}} {
		other := strings.Split(side.other, "\n")
		for line := range strings.SplitSeq(side.text, "\n") {
			if !slices.Contains(other, line) {
				out.WriteString(side.sign + line + "\n")
			}
		}
	}
	return out.String()
}

// table is a generated part in the form of a table. The first columns are from the
// code; the first of all names the row. The last ones are written by hand.
type table struct {
	made, byHand []string   // the columns' titles
	rows         [][]string // of the columns made
	keepOrder    bool       // the rows stay in the order that they have on the page
}

func tabled(build func(t *testing.T) table) part {
	return func(t *testing.T, old string) string { return build(t).render(t, old) }
}

// cells takes a row of a table apart, or returns nil. \| is a bar within a cell.
func cells(line string) (out []string) {
	line = strings.TrimSpace(line)
	if len(line) < 2 || !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || strings.HasPrefix(line, "|--") {
		return nil
	}
	inCell := ""
	for piece := range strings.SplitSeq(line[1:len(line)-1], "|") {
		if strings.HasSuffix(piece, `\`) {
			inCell += piece + "|"
			continue
		}
		out = append(out, strings.TrimSpace(inCell+piece))
		inCell = ""
	}
	return out
}

func (tb table) render(t *testing.T, old string) string {
	t.Helper()
	hand, place := map[string][]string{}, map[string]int{}
	for line := range strings.Lines(old) {
		if row := cells(line); len(row) == len(tb.made)+len(tb.byHand) {
			hand[row[0]] = row[len(tb.made):]
			place[row[0]] = len(place)
		}
	}
	if len(tb.rows) == 0 {
		t.Error("the code has none of what the table lists; has its form changed?")
	}
	if tb.keepOrder {
		slices.SortStableFunc(tb.rows, func(a, b []string) int {
			return cmp.Compare(placeOf(place, a), placeOf(place, b))
		})
	}
	titles := slices.Concat(tb.made, tb.byHand)
	out := "| " + strings.Join(titles, " | ") + " |\n|" + strings.Repeat("---|", len(titles)) + "\n"
	for _, row := range tb.rows {
		row = slices.Clone(row)
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], "|", `\|`)
		}
		for i, title := range tb.byHand {
			text := ""
			if known := hand[row[0]]; known != nil {
				text = known[i]
			}
			if text == "" {
				t.Errorf("%s: the column %q is empty; fill it by hand", row[0], title)
			}
			row = append(row, text)
		}
		out += "| " + strings.Join(row, " | ") + " |\n"
	}
	return out
}

func placeOf(place map[string]int, row []string) int {
	if at, known := place[row[0]]; known {
		return at
	}
	return len(place)
}

// code puts words in code quotes, with commas between.
func code(words ...string) string {
	quotedWords := make([]string, len(words))
	for i, w := range words {
		if w == "" {
			w = `""`
		}
		quotedWords[i] = "`" + w + "`"
	}
	return strings.Join(quotedWords, ", ")
}

func metricTable(t *testing.T) table {
	tb := table{made: []string{"metric", "type", "what it counts", "labels and their values"}, byHand: []string{"when to worry"}}
	metrics := metricsOf(t, production(t))
	// What the engine registers is listed, with the same words and labels.
	descs := make(chan fmt.Stringer, 1000)
	registered := telemetry.NewMetrics().Registry
	go func() { defer close(descs); describe(registered, descs) }()
	for d := range descs {
		if !strings.Contains(d.String(), `fqName: "posthaste_`) {
			continue
		}
		if !slices.ContainsFunc(metrics, func(m metric) bool { return strings.HasPrefix(d.String(), m.desc()) }) {
			t.Errorf("the registry has %s, which was not found in the code", d)
		}
	}
	for _, m := range metrics {
		var labels []string
		for i, l := range m.labels {
			labels = append(labels, code(l)+": "+m.values[i])
		}
		tb.rows = append(tb.rows, []string{code(m.name), m.kind, m.help, cmp.Or(strings.Join(labels, "; "), "–")})
	}
	return tb
}

func logTable(t *testing.T) table {
	tb := table{made: []string{"message", "level", "fields"}, byHand: []string{"meaning"}}
	for _, l := range logLinesOf(t, production(t)) {
		tb.rows = append(tb.rows, []string{code(l.message), strings.Join(l.levels, ", "), cmp.Or(code(l.fields...), "–")})
	}
	return tb
}

// settingText finds what the default file says of a setting.
var settingText = regexp.MustCompile(`(?m)^# --([a-z-]+): ((?:.*\n# )*.*)\n#POSTHASTE_`)

func settingTable(t *testing.T) table {
	tb := table{made: []string{"flag", "variable, and name in the file", "default", "meaning"}}
	texts := map[string]string{}
	for _, m := range settingText.FindAllStringSubmatch(config.DefaultFile, -1) {
		texts[m[1]] = strings.ReplaceAll(m[2], "\n# ", " ")
	}
	for _, s := range config.Settings() {
		text := texts[s.Name]
		if text == "" {
			t.Errorf("the default file says nothing of --%s", s.Name)
		}
		text = strings.ReplaceAll(strings.ReplaceAll(text, ", or …_FILE", ""), "<", "&lt;")
		names := code(s.Env)
		if s.HasFile {
			names += ", or " + code(s.Env+"_FILE")
		}
		if s.StandIn != "" {
			names += ", else " + code(s.StandIn)
		}
		value := "–"
		if s.Default != "" {
			value = code(s.Default)
		}
		tb.rows = append(tb.rows, []string{code("--" + s.Name), names, value, text})
	}
	return tb
}

func variableTable(t *testing.T) table {
	tb := table{made: []string{"variable"}, byHand: []string{"read by", "meaning"}, keepOrder: true}
	var settings []string
	for _, s := range config.Settings() {
		settings = append(settings, s.Env, s.Env+"_FILE", s.StandIn)
	}
	for _, name := range variablesOf(production(t)) {
		if !slices.Contains(settings, name) {
			tb.rows = append(tb.rows, []string{code(name)})
		}
	}
	return tb
}

// limitsToShow are constants that users meet, with the words that they are shown under.
var limitsToShow = []struct{ what, dir, name, unit string }{
	{"type of an event", ".", "MaxTypeBytes", "bytes"},
	{"`Idempotency-Key`", ".", "MaxIdempotencyKeyBytes", "bytes"},
	{"`Posthaste-Order-Key`", ".", "MaxOrderKeyBytes", "bytes"},
	{"`Content-Type`, `Content-Encoding`", ".", "MaxContentTypeBytes", "bytes"},
	{"forwarded headers of an event", ".", "MaxEventHeaders", ""},
	{"names and values of forwarded headers", ".", "MaxEventHeaderBytes", "bytes"},
	{"attributes of a CloudEvent in binary mode", ".", "MaxAttributeBytes", "bytes"},
	{"lines of a batch", "internal/httpapi", "maxBatchLines", ""},
	{"body of a batch", "internal/httpapi", "maxBatchBytes", "bytes"},
	{"any other JSON body", "internal/httpapi", "maxJSONBytes", "bytes"},
	{"endpoints that one line of a batch names", "internal/httpapi", "maxChosenEndpoints", ""},
	{"`uid` of an endpoint or a tenant", ".", "MaxUIDBytes", "bytes"},
	{"entries of `metadata`", ".", "MaxMetadataEntries", ""},
	{"a name in `metadata`", ".", "MaxMetadataKeyBytes", "bytes"},
	{"a value in `metadata`", ".", "MaxMetadataValueBytes", "bytes"},
	{"URL of an endpoint", ".", "MaxURLBytes", "bytes"},
	{"own headers of an endpoint", ".", "MaxEndpointHeaders", ""},
	{"value of an endpoint's own header", ".", "MaxHeaderValueBytes", "bytes"},
	{"secrets that an endpoint signs with at once", "internal/pipeline", "MaxSecrets", ""},
	{"problems that one answer lists", "internal/httpapi", "maxDecodeProblems", ""},
	{"all headers of a request", "internal/cli", "maxHeaderBytes", "bytes"},
	{"all headers of a receiver's answer", "internal/deliver", "maxHeaderBytes", "bytes"},
	{"body of a receiver's answer that is kept", ".", "MaxResponseBodyBytes", "bytes"},
	{"headers of a receiver's answer that are kept", ".", "MaxResponseHeaders", ""},
}

func limitTable(t *testing.T) table {
	tb := table{made: []string{"what", "at most"}, byHand: []string{"beyond it"}}
	files := production(t)
	for _, l := range limitsToShow {
		n := constant(t, files, l.dir, l.name)
		text := strconv.FormatInt(n, 10)
		if l.unit == "bytes" {
			text = sizeInWords(n)
		}
		tb.rows = append(tb.rows, []string{l.what, text})
	}
	return tb
}

func sizeInWords(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

func requestHeaderTable(t *testing.T) table {
	names, _ := apiHeaders(t, production(t))
	return headerTable(names, "meaning", "errors")
}

func answerHeaderTable(t *testing.T) table {
	_, names := apiHeaders(t, production(t))
	return headerTable(names, "meaning")
}

func headerTable(names []string, byHand ...string) table {
	tb := table{made: []string{"header"}, byHand: byHand, keepOrder: true}
	for _, name := range names {
		tb.rows = append(tb.rows, []string{code(name)})
	}
	return tb
}

// What the examples and the table of a delivery's headers are made with.
var (
	exampleAt     = time.Unix(1764428000, 0).UTC()
	exampleBody   = `{"invoice":42,"amount":1250}`
	exampleSecret = "whsec_" + "UG9zdGhhc3RlIGV4YW1wbGUgMjRieXRl" // an example: 24 bytes that anybody can read
	hexSecret     = "an example of 32 bytes, or more!"
)

func exampleEvent(t *testing.T) posthaste.ID {
	t.Helper()
	id, err := posthaste.ParseID(posthaste.KindEvent, "evt_01kb84nv00e5v9k2m3n4p5q6r7")
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// exampleHeaders returns what a delivery carries, in the spelling in which it goes out.
func exampleHeaders(t *testing.T, s posthaste.Signature, secret string) []posthaste.Header {
	t.Helper()
	d := posthaste.DefaultDefinition()
	d.URL, d.Signature, d.Headers = "https://example.com/hooks", s, map[string]string{"X-Own": "set on the endpoint"}
	target, err := deliver.NewTarget(d, []string{secret})
	if err != nil {
		t.Fatal(err)
	}
	return deliver.New(deliver.Config{UserAgent: "Posthaste/VERSION"}).RequestHeaders(target, &deliver.Message{
		EventID: exampleEvent(t), DeliveryID: exampleEvent(t).Delivery(1), Number: 1, Type: "invoice.paid",
		ContentType: "application/json", ContentEncoding: "identity", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Headers: []posthaste.Header{{Name: "X-Trace", Value: "forwarded"}},
	}, exampleAt)
}

var hexNames = posthaste.SignatureHeaders{
	ID: "X-Acme-Id", DeliveryID: "X-Acme-Delivery", Timestamp: "X-Acme-Timestamp", Event: "X-Acme-Event", Signature: "X-Acme-Signature",
}

func deliveryHeaderTable(t *testing.T) table {
	tb := table{made: []string{"header", "schemes"}, byHand: []string{"meaning"}, keepOrder: true}
	schemes := map[string][]string{}
	var names []string
	for _, s := range []posthaste.Signature{{Scheme: posthaste.SchemeStandard}, {Scheme: posthaste.SchemeHex, Headers: hexNames}} {
		secret := map[string]string{posthaste.SchemeStandard: exampleSecret, posthaste.SchemeHex: hexSecret}[s.Scheme]
		for _, h := range exampleHeaders(t, s, secret) {
			if schemes[h.Name] == nil {
				names = append(names, h.Name)
			}
			schemes[h.Name] = append(schemes[h.Name], s.Scheme)
		}
	}
	for _, name := range names {
		tb.rows = append(tb.rows, []string{code(name), strings.Join(schemes[name], ", ")})
	}
	return tb
}

func standardExample(t *testing.T, _ string) string {
	signer, err := signature.NewStandard(exampleSecret)
	if err != nil {
		t.Fatal(err)
	}
	id := exampleEvent(t).Print(posthaste.KindEvent)
	return fenced("secret:             %s\nwebhook-id:         %s\nwebhook-timestamp:  %d\nbody:               %s\n\nsigned content:     %[2]s.%[3]d.%[4]s\nwebhook-signature:  %[5]s",
		exampleSecret, id, exampleAt.Unix(), exampleBody, signer.Append(nil, id, exampleAt, []byte(exampleBody)))
}

func hexExample(t *testing.T, _ string) string {
	signer, err := signature.NewHex(hexSecret)
	if err != nil {
		t.Fatal(err)
	}
	return fenced("secret:            %s\nX-Acme-Timestamp:  %d\nbody:              %s\n\nsigned content:    %[2]d.%[3]s\nX-Acme-Signature:  %[4]s",
		hexSecret, exampleAt.Unix(), exampleBody, signer.Append(nil, exampleAt, []byte(exampleBody)))
}

func fenced(format string, args ...any) string {
	return "```\n" + fmt.Sprintf(format, args...) + "\n```\n"
}

// commandHelp is what the program says of each command, found by asking it for
// its commands as a shell's completion does.
func commandHelp(t *testing.T, _ string) string {
	t.Setenv("COLUMNS", "100") // the help is as wide as the terminal
	var out strings.Builder
	var visit func(path []string)
	visit = func(path []string) {
		words := run(t, append(append([]string{"completion", "words", "bash", "--"}, path...), "")...)
		if len(path) > 0 {
			fmt.Fprintf(&out, "## posthaste %s\n\n%s\n", strings.Join(path, " "),
				fenced("%s", strings.TrimSpace(run(t, append(slices.Clone(path), "--help")...))))
		}
		for _, word := range strings.Fields(words) {
			visit(append(slices.Clone(path), word))
		}
	}
	visit(nil)
	return out.String()
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if status := cli.Main(context.Background(), args, cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut}); status != 0 {
		t.Fatalf("posthaste %s: status %d: %s", strings.Join(args, " "), status, &errOut)
	}
	return out.String()
}

// TestLimits: each file that limits.md names as the place of a bound exists.
func TestLimits(t *testing.T) {
	page, err := os.ReadFile(reference + "limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`([a-z0-9_/]+\\.(?:go|sql))`").FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("limits.md: %v", err)
		}
	}
}

// TestReferenceIndex: README.md names each page of the folder.
func TestReferenceIndex(t *testing.T) {
	index, err := os.ReadFile(reference + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(reference + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name := filepath.Base(page)
		if name != "README.md" && (!strings.Contains(string(index), "]("+name+")") || parts[name] == nil) {
			t.Errorf("%s is not in the index, or nothing checks it", name)
		}
	}
	for name := range parts {
		if !slices.Contains(pages, filepath.FromSlash(reference+name)) {
			t.Errorf("%s is missing", name)
		}
	}
}

var (
	markdownLink  = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	markdownCode  = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	markdownTitle = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// TestReferenceLinks: every relative link in a Markdown file of the repository
// leads to a file, and to a heading where it names one.
func TestReferenceLinks(t *testing.T) {
	links := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "run", "bin"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range markdownLink.FindAllStringSubmatch(markdownCode.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			if problem := followLink(name, m[1]); problem != "" {
				t.Errorf("%s: (%s) %s", name, m[1], problem)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

func followLink(from, link string) (problem string) {
	target, heading, hasHeading := strings.Cut(link, "#")
	file := from
	if target != "" {
		file = filepath.Join(filepath.Dir(from), filepath.FromSlash(target))
	}
	info, err := os.Stat(file)
	if err != nil {
		return "leads nowhere"
	}
	if !hasHeading || info.IsDir() || !strings.HasSuffix(file, ".md") {
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	for _, m := range markdownTitle.FindAllStringSubmatch(string(text), -1) {
		if anchor(m[1]) == heading {
			return ""
		}
	}
	return "names a heading that is not there"
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is how GitHub names a heading.
func anchor(title string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// TestReferenceCanFail: a table notices what is new, gone and not filled in.
func TestReferenceCanFail(t *testing.T) {
	tb := table{made: []string{"name", "kind"}, byHand: []string{"meaning"}, rows: [][]string{{"`a`", "x|y"}, {"`b`", "z"}}}
	old := "| name | kind | meaning |\n|---|---|---|\n| `a` | old | kept \\| by hand |\n| `b` | z | two |\n| `gone` | z | three |\n"
	want := "| name | kind | meaning |\n|---|---|---|\n| `a` | x\\|y | kept \\| by hand |\n| `b` | z | two |\n"
	if got := tb.render(t, old); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := difference(old, want); !strings.Contains(got, "- | `gone`") || !strings.Contains(got, "+ | `a` | x") {
		t.Errorf("the difference is %q", got)
	}
	for link, ok := range map[string]bool{"README.md": true, "docs/adr": true, "nowhere.md": false, "README.md#a-minute": true, "README.md#an-hour": false} {
		if problem := followLink("README.md", link); (problem == "") != ok {
			t.Errorf("%s: %q", link, problem)
		}
	}
}
