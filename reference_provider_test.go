package posthaste_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/inbound"
)

// The pages of docs/reference/providers are made from inbound's table as a whole, a
// page for each provider and an index. As with the other pages:
//
//	go test -run '^TestReference' . -update
const providerPages = reference + "providers/"

const madePage = "<!-- Made from inbound's table of providers: go test -run '^TestReference' . -update -->\n\n"

func TestReferenceProviders(t *testing.T) {
	pages := map[string]string{"README.md": providerIndex(t)}
	for _, p := range inbound.Providers() {
		pages[p.Name+".md"] = providerPage(t, p)
	}
	for name, made := range pages {
		old, err := os.ReadFile(providerPages + name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if string(old) == made {
			continue
		}
		if !*update {
			t.Errorf("%s%s is not what the code says (go test -run '^TestReference' . -update):\n%s", providerPages, name, difference(string(old), made))
			continue
		}
		if err := os.WriteFile(providerPages+name, []byte(made), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filepath.Glob(providerPages + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range found {
		if _, made := pages[filepath.Base(page)]; !made {
			t.Errorf("%s is of no provider", page)
		}
	}
}

func providerIndex(t *testing.T) string {
	var b strings.Builder
	b.WriteString("# Providers\n\n" + madePage)
	b.WriteString("A source takes the webhooks of one provider at a URL of its own, `/in/src_…`. Each request is verified\n" +
		"on the bytes that arrived, stored, and answered as the provider wants it.\n\n" +
		"| provider | name | events are called | recognised as repeated by |\n|---|---|---|---|\n")
	for _, p := range inbound.Providers() {
		fmt.Fprintf(&b, "| [%s](%s.md) | `%s` | %s | %s |\n", p.Title, p.Name, p.Name, inCell(p.Types), inCell(p.DeliveryID))
	}
	b.WriteString("\nA type has 128 characters at most, of `a-z A-Z 0-9 . _ - / :`; what the provider has besides becomes `_`.\n" +
		"Three names are not the provider's: `PROVIDER.malformed` is a genuine request whose body cannot be read,\n" +
		"`PROVIDER.unknown` one that does not say its type, `PROVIDER.batch` one with events of different types.\n\n" +
		"## Rejections\n\nA request that is not verified is answered with 401 and kept with one of these reasons:\n\n| reason | meaning |\n|---|---|\n")
	rows := 0
	constants(in(production(t), "inbound"), func(name string, value ast.Expr, comment string) {
		if text, ok := literal(value); ok && strings.HasPrefix(name, "Reason") {
			fmt.Fprintf(&b, "| `%s` | %s |\n", text, inCell(strings.TrimSpace(comment)))
			rows++
		}
	})
	if rows < 5 {
		t.Errorf("only %d reasons were found; has their form changed?", rows)
	}
	return b.String()
}

func providerPage(t *testing.T, p inbound.Provider) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s", p.Title, madePage)
	fmt.Fprintf(&b, "The provider `%s` of a source. [All providers](README.md)", p.Name)
	if guide := "guides/receive-from-" + p.Name + ".md"; exists("docs/" + guide) {
		fmt.Fprintf(&b, " · [Guide, step by step](../../%s)", guide)
	}
	b.WriteString("\n\n## Set it up\n\n")
	for i, step := range p.Setup {
		fmt.Fprintf(&b, "%d. %s\n", i+1, step)
	}
	fmt.Fprintf(&b, "\nA source is made with `POST /v1/sources`; the answer has its URL:\n\n```json\n%s\n```\n\n", exampleSource(t, p))
	b.WriteString("## Secrets and settings\n\n")
	switch {
	case p.Secret == "":
		b.WriteString("There are no secrets.\n")
	case p.NeedSecret:
		fmt.Fprintf(&b, "`secrets`: %s. There can be up to %d; any of them may match.\n", p.Secret, inbound.MaxSecrets)
	default:
		fmt.Fprintf(&b, "`secrets`, if any: %s.\n", p.Secret)
	}
	if len(p.Settings) > 0 {
		b.WriteString("\n| setting | default | meaning |\n|---|---|---|\n")
	}
	for _, s := range p.Settings {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, settingDefault(s), inCell(settingMeaning(s)))
	}
	b.WriteString("\n## What arrives\n\n| what | how |\n|---|---|\n")
	for _, row := range [][2]string{
		{"verified", p.Signature}, {"type of an event", p.Types}, {"recognised as repeated by", p.DeliveryID},
		{"answer to what is stored", answerInWords(p.Success)}, {"answered besides", p.Handshake}, {"tried again", p.Retries},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", row[0], inCell(row[1]))
		}
	}
	if len(p.Notes) > 0 {
		b.WriteString("\n## Good to know\n\n")
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}
	return b.String()
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// exampleSource is a body for POST /v1/sources with what the provider cannot do without.
func exampleSource(t *testing.T, p inbound.Provider) string {
	t.Helper()
	source := struct {
		Name     string            `json:"name"`
		Provider string            `json:"provider"`
		Secrets  []string          `json:"secrets,omitempty"`
		Settings map[string]string `json:"settings,omitempty"`
	}{Name: p.Name, Provider: p.Name}
	if p.NeedSecret {
		source.Secrets = []string{"…"}
	}
	for _, s := range p.Settings {
		if s.Required {
			if source.Settings == nil {
				source.Settings = map[string]string{}
			}
			source.Settings[s.Name] = "…"
		}
	}
	text, err := json.Marshal(source)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func settingDefault(s inbound.Setting) string {
	switch {
	case s.Required:
		return "required"
	case s.Default == "":
		return "–"
	}
	return "`" + s.Default + "`"
}

func settingMeaning(s inbound.Setting) string {
	if s.Values == nil {
		return s.Meaning
	}
	return s.Meaning + ": one of " + code(s.Values...)
}

func answerInWords(a inbound.Answer) string {
	if len(a.Body) == 0 {
		return strconv.Itoa(a.Status) + " with an empty body"
	}
	return fmt.Sprintf("%d with %s", a.Status, code(string(a.Body)))
}

// inCell keeps a text from ending a cell of a table.
func inCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// A page is noticed that the code does not make any more.
func TestReferenceProvidersCanFail(t *testing.T) {
	p := inbound.Providers()[0]
	before := providerPage(t, p)
	p.Setup = append(slices.Clone(p.Setup), "One more | step.")
	if got := difference(before, providerPage(t, p)); !strings.Contains(got, "+ "+strconv.Itoa(len(p.Setup))+". One more | step.") {
		t.Errorf("the difference is %q", got)
	}
}
