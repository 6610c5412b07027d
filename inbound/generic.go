package inbound

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// The generic providers: what is a row of the table for others is in the settings here.

// placesOfGeneric are the settings of all generic providers.
func placesOfGeneric() []Setting {
	return []Setting{
		{Name: "type_header", Meaning: "the header that has the type of the event", problem: headerNameProblem},
		{Name: "type_path", Meaning: "the member of the JSON body, or field of the form, that has the type of the event. " + pathGrammar, Default: "type", problem: pathProblem},
		{Name: "id_header", Meaning: "the header that has the id of the delivery", problem: headerNameProblem},
		{Name: "id_path", Meaning: "the member of the body that has the id of the delivery. " + pathGrammar, problem: pathProblem},
	}
}

// maxPathSteps bounds the names and indexes of a path.
const maxPathSteps = 16

const pathGrammar = `Names of members, and indexes of lists from 0, with full stops between them: data.items.0.id. A full stop in a name is written \.`

// splitPath takes a path apart. A backslash makes the full stop after it part of a name.
func splitPath(path string) (steps []string) {
	step := ""
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			step += path[i : i+1]
		case path[i] == '.':
			steps, step = append(steps, step), ""
		default:
			step += path[i : i+1]
		}
	}
	return append(steps, step)
}

func pathProblem(path string) string {
	steps := splitPath(path)
	switch {
	case strings.HasPrefix(path, "$") || strings.HasPrefix(path, "/"):
		return "is a JSONPath or a JSON Pointer, and only names and indexes with full stops between them are understood"
	case strings.ContainsAny(path, "[]"):
		return "has brackets in it: an index is written as data.items.0.id"
	case slices.Contains(steps, ""):
		return "has an empty name in it"
	case len(steps) > maxPathSteps:
		return fmt.Sprintf("has more than %d names", maxPathSteps)
	}
	return ""
}

func tolerance(standard string) Setting {
	return Setting{
		Name: "tolerance", Default: standard, problem: toleranceProblem,
		Meaning: "how far the signed timestamp may be from the time of receipt, in both directions, from 1s to 168h",
	}
}

// located returns the provider with the places of type and id that the settings name.
func (v *Verifier) located() *provider {
	if !slices.ContainsFunc(v.provider.Settings, func(s Setting) bool { return s.Name == "type_path" }) {
		return v.provider
	}
	p := *v.provider
	p.types, p.ids = v.settings.places("type"), v.settings.places("id")
	return &p
}

func (s settings) places(what string) (all [][]place) {
	if name := s[what+"_header"]; name != "" {
		all = append(all, parts(inHeader(name)))
	}
	if path := s[what+"_path"]; path != "" {
		all = append(all, parts(inBody(splitPath(path)...)))
	}
	return all
}

// hmacScheme is the scheme that the settings of the provider hmac describe.
func hmacScheme(s settings) []scheme {
	return []scheme{{
		signature: grammar{
			header: s["header"], separator: s["separator"], prefix: s["prefix"], stampPrefix: s["timestamp_prefix"],
			encoding: encoding(s["encoding"]),
		},
		algorithm: map[string]algorithm{"sha1": hmacSHA1, "sha256": hmacSHA256, "sha512": hmacSHA512}[s["hash"]],
		form:      keyForm(s["key_encoding"]),
		template:  s["template"],
		timestamp: s.stamp(),
		id:        s["id_header"],
	}}
}

func (s settings) stamp() stamp {
	if s["timestamp_header"] == "" && s["timestamp_prefix"] == "" {
		return stamp{}
	}
	return stamp{in: inHeader(s["timestamp_header"]), unit: anyUnit}
}

var placeholder = regexp.MustCompile(`\{[^}]*\}?`)

// checkHMAC checks what template, other settings and secrets only together say.
func checkHMAC(secrets []string, s settings) (problems []posthaste.Problem) {
	problem := func(name, message, hint string) {
		problems = append(problems, posthaste.Problem{Field: "settings." + name, Message: message, Hint: hint})
	}
	template := s["template"]
	const allowed = "{body}, {timestamp}, {id}, {method} and {url} can be in it"
	for _, p := range placeholder.FindAllString(template, -1) {
		if !slices.Contains([]string{"{body}", "{timestamp}", "{id}", "{method}", "{url}"}, p) {
			problem("template", "has a placeholder that is not known", allowed)
		}
	}
	has := func(p string) bool { return strings.Contains(template, p) }
	if !has("{body}") {
		problem("template", "leaves out {body}, so that anybody's body would be taken", allowed)
	}
	if has("{timestamp}") != (s.stamp().unit != noUnit) {
		problem("template", "and timestamp_header or timestamp_prefix go together: a timestamp that is not signed proves nothing", "set both or neither")
	}
	if has("{id}") && s["id_header"] == "" {
		problem("id_header", "is missing", "the template has {id} in it")
	}
	if has("{url}") && s["public_url"] == "" {
		problem("public_url", "is missing", "the template has {url} in it")
	}
	for i, secret := range secrets {
		if _, err := hmacScheme(s)[0].key(secret); err != nil {
			problems = append(problems, posthaste.Problem{Field: fmt.Sprintf("secrets[%d]", i), Message: err.Error(), Hint: "see the setting key_encoding"})
		}
	}
	return problems
}

func hmacSettings() []Setting {
	return append([]Setting{
		{Name: "header", Required: true, Meaning: "the header that has the signature, for example X-Signature", problem: headerNameProblem},
		{Name: "hash", Default: "sha256", Values: []string{"sha256", "sha512", "sha1"}, Meaning: "the hash of the HMAC"},
		{Name: "encoding", Default: "hex", Values: []string{"hex", "base64"}, Meaning: "how the signature is written"},
		{Name: "key_encoding", Default: "text", Values: []string{"text", "base64", "hex"}, Meaning: "what the secret is: its text itself, or the base64 or hexadecimal of the key"},
		{Name: "prefix", Meaning: "what stands before the signature, for example sha256= or v1="},
		{Name: "separator", Meaning: "what stands between the parts of the header, for example a comma, where it is a list"},
		{Name: "timestamp_prefix", Meaning: "what stands before the timestamp in that list, for example t="},
		{Name: "timestamp_header", Meaning: "the header that has the timestamp, in seconds, milliseconds or RFC 3339", problem: headerNameProblem},
		{Name: "template", Default: "{body}", Meaning: "the signed content, for example {timestamp}.{body}; {id}, {method} and {url} can be in it"},
		{Name: "public_url", Meaning: "the URL that {url} stands for", problem: publicURLProblem},
		tolerance("5m"),
	}, placesOfGeneric()...)
}

// keyScheme is the scheme of the provider api-key.
func keyScheme(s settings) []scheme {
	return []scheme{{signature: grammar{header: s["header"], prefix: s["prefix"], encoding: verbatim}, algorithm: equality, form: textKey}}
}

// oktaScheme is that of okta, which sends a text of the user's in a header of the user's.
func oktaScheme(s settings) []scheme {
	return []scheme{{signature: grammar{header: s["header"], encoding: verbatim}, algorithm: equality, form: textKey}}
}

// verifyBasic compares user name and password of HTTP Basic (RFC 7617).
func verifyBasic(_ context.Context, v *Verifier, r *incoming) (*Rejection, error) {
	text := single(r.Header, "Authorization")
	if text == "" {
		return reject(ReasonMissingHeader, "the header Authorization is missing, empty or repeated", "enter user name and password at the sender"), nil
	}
	scheme, encoded, _ := strings.Cut(text, " ")
	pair := fromBase64(strings.TrimSpace(encoded))
	if pair == nil || !strings.EqualFold(scheme, "Basic") {
		return reject(ReasonMalformedHeader, "the header Authorization is not HTTP Basic", "it should read Basic BASE64"), nil
	}
	if !v.isSecret(string(pair)) {
		return reject(ReasonWrongToken, "user name and password are none of the secrets", "a secret is USER:PASSWORD"), nil
	}
	return nil, nil
}

func basicProblem(secret string) string {
	if user, password, found := strings.Cut(secret, ":"); !found || user == "" || password == "" {
		return "is not USER:PASSWORD"
	}
	return ""
}

// verifyNothing is for senders that prove nothing.
func verifyNothing(context.Context, *Verifier, *incoming) (*Rejection, error) { return nil, nil }

// writing are the methods that generic senders use.
func writing() []string { return []string{http.MethodPost, http.MethodPut, http.MethodPatch} }
