package inbound

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDiagnosedBytes caps the bodies that are tried in other forms: a sender of
// forgeries must not be able to make each cost many times a genuine request.
const maxDiagnosedBytes = 64 << 10

// diagnose finds out more of why a request was rejected.
func (v *Verifier) diagnose(ctx context.Context, r *incoming, found Rejection) Rejection {
	switch found.Reason {
	case ReasonMissingHeader:
		if other := v.otherHeader(r.Header); other != nil {
			return *other
		}
	case ReasonMalformedHeader:
		if otherwise := v.trySettings(ctx, r); otherwise != nil {
			return *otherwise
		}
	case ReasonWrongSecret, ReasonBodyChanged:
		if otherwise := v.trySettings(ctx, r); otherwise != nil {
			return *otherwise
		}
		if changed := v.tryBodies(ctx, r); changed != nil {
			return *changed
		}
		if moved := v.tryURLs(ctx, r); moved != nil {
			return *moved
		}
		if misread := v.trySecrets(ctx, r); misread != nil {
			return *misread
		}
		if found.Reason == ReasonWrongSecret {
			found.Hint += suspicion(r.Body)
		}
	}
	return found
}

// suspicion says what is odd about a body whose signature is right for nothing that
// was tried.
func suspicion(body []byte) string {
	text := bytes.TrimSpace(body)
	switch {
	case len(text) == 0:
		return ". The body is empty: a proxy or a redirect may have dropped it"
	case looksJSON(text) && !json.Valid(text):
		return ". The body is not whole JSON: it may have been cut short"
	case bytes.Contains(text, []byte("\ufffd")):
		return ". The body has characters in it that stand for unreadable ones: something read it in another character encoding"
	}
	return ""
}

// trySecrets looks for another reading of the secrets: the sender may have used the
// text where its bytes in base64 were meant, or the other way about.
func (v *Verifier) trySecrets(ctx context.Context, r *incoming) *Rejection {
	if v.provider.verify != nil || len(r.Body) > maxDiagnosedBytes {
		return nil
	}
	for _, reading := range []struct {
		name string
		key  func(secret string) []byte
	}{
		{"as text, whole", func(secret string) []byte { return []byte(secret) }},
		{"as text, without its prefix", func(secret string) []byte { return []byte(withoutPrefix(secret)) }},
		{"decoded from base64", func(secret string) []byte { return fromBase64(withoutPrefix(secret)) }},
		{"decoded from hexadecimal", fromHex},
		{"with a line break at its end", func(secret string) []byte { return []byte(secret + "\n") }},
	} {
		other := *v
		other.rings = make([][]key, len(v.schemes))
		for i, s := range v.schemes {
			for _, secret := range v.secrets {
				if k := reading.key(secret); len(k) > 0 && s.algorithm.isHMAC() {
					other.rings[i] = append(other.rings[i], key{bytes: k})
				}
			}
		}
		if other.verifies(ctx, r) {
			return reject(ReasonWrongSecret, "the signature is right with the secret "+reading.name+", which is not how "+v.provider.Title+" signs",
				"let the sender use the secret as it should be, or use the provider hmac with a key_encoding")
		}
	}
	return nil
}

func withoutPrefix(secret string) string {
	if before, after, found := strings.Cut(secret, "_"); found && len(before) < len("whsec_") {
		return after
	}
	return secret
}

func fromHex(secret string) []byte {
	raw, err := hex.DecodeString(secret)
	if err != nil {
		return nil
	}
	return raw
}

// otherHeader looks for a signature under a name that is not this provider's.
func (v *Verifier) otherHeader(h http.Header) *Rejection {
	wanted := v.headerNames()
	for _, old := range legacyHeaders[v.provider.Name] {
		if h.Get(old) != "" {
			return reject(ReasonWrongHeader, "the request has only the old header "+old+", which is not accepted", "set a secret at "+v.provider.Title+" that makes it send "+wanted[0])
		}
	}
	for _, p := range table() {
		for _, s := range p.schemes {
			name := s.signature.name()
			if s.algorithm != equality && h.Get(name) != "" && !strings.EqualFold(name, wanted[0]) {
				return reject(ReasonWrongHeader, fmt.Sprintf("the request has no %s and is signed in %s, as %s does", wanted[0], name, p.Title),
					"check the provider of this source and where this URL was entered")
			}
		}
	}
	return nil
}

// legacyHeaders are signatures with SHA-1 that are sent beside better ones.
var legacyHeaders = map[string][]string{"github": {"X-Hub-Signature"}, "meta": {"X-Hub-Signature"}}

// headerNames are those that a request of the provider has to have.
func (v *Verifier) headerNames() (names []string) {
	for _, s := range v.schemes {
		names = append(names, s.signature.name())
	}
	return append(names, "signature")
}

// verifies reports whether a changed request would have been genuine, if perhaps late.
func (v *Verifier) verifies(ctx context.Context, r *incoming) bool {
	found, err := v.verify(ctx, r)
	return err == nil && (found == nil || found.Reason == ReasonStaleTimestamp)
}

// tryBodies looks for a form of the body that the signature is right for.
func (v *Verifier) tryBodies(ctx context.Context, r *incoming) *Rejection {
	if len(r.Body) > maxDiagnosedBytes {
		return nil
	}
	tried := map[[sha256.Size]byte]bool{sha256.Sum256(r.Body): true}
	for _, form := range otherForms(r) {
		sum := sha256.Sum256(form.body)
		if tried[sum] {
			continue
		}
		tried[sum] = true
		other := *r.Request
		other.Body = form.body
		if v.verifies(ctx, &incoming{Request: &other}) {
			return reject(ReasonBodyChanged, "the signature is right for the body "+form.name+": it was changed on its way",
				"let the proxy, gateway or middleware in front pass bodies on byte for byte")
		}
	}
	return nil
}

// maxRewritten is how many times maxDiagnosedBytes a body may become: \uXXXX for
// each character of one byte is the most that anything but nesting makes of it.
const maxRewritten = 6

type bodyVariant struct {
	name string // to be read after "the body"
	body []byte
}

func otherForms(r *incoming) []bodyVariant {
	forms := []bodyVariant{
		{"before its content encoding", decompressedForDiagnosis(r.Body)},
		{"without the white space around it", bytes.TrimSpace(r.Body)},
		{"with a line break at its end", append(bytes.Clone(r.Body), '\n')},
		{"with CR and LF at its end", append(bytes.TrimRight(bytes.Clone(r.Body), "\r\n"), "\r\n"...)},
		{"with line breaks of LF", bytes.ReplaceAll(r.Body, []byte("\r\n"), []byte("\n"))},
		{"with line breaks of CR and LF", bytes.ReplaceAll(bytes.ReplaceAll(r.Body, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))},
		{"without its byte order mark", bytes.TrimPrefix(r.Body, []byte("\ufeff"))},
	}
	forms = append(forms, bodyVariant{"before it was turned from Latin-1 into UTF-8", inLatin1(r.Body)}, bodyVariant{"that is empty", []byte{}})
	text := bytes.TrimSpace(r.Body)
	if plain, err := base64.StdEncoding.DecodeString(string(text)); err == nil && len(plain) > 0 {
		forms = append(forms, bodyVariant{"before it was written in base64", plain})
	}
	if looksForm(text) {
		forms = append(forms, otherForm(text)...)
	}
	if !json.Valid(r.Body) {
		return forms
	}
	var inner string
	if text[0] == '"' && json.Unmarshal(text, &inner) == nil {
		forms = append(forms, bodyVariant{"before it was put into a JSON string", []byte(inner)})
	}
	for _, s := range jsonStyles {
		if body := s.rewrite(text); body != nil {
			forms = append(forms, bodyVariant{s.name, body})
		}
	}
	return forms
}

// otherForm returns other spellings of a form: of blanks, and of escapes in small letters.
func otherForm(text []byte) []bodyVariant {
	lower := escapeInForm.ReplaceAllFunc(text, bytes.ToLower)
	upper := escapeInForm.ReplaceAllFunc(text, bytes.ToUpper)
	forms := []bodyVariant{
		{"as a form with %20 for blanks", bytes.ReplaceAll(text, []byte("+"), []byte("%20"))},
		{"as a form with + for blanks", bytes.ReplaceAll(text, []byte("%20"), []byte("+"))},
		{"as a form with escapes in small letters", lower},
		{"as a form with escapes in capitals", upper},
	}
	if form, err := url.ParseQuery(string(text)); err == nil && form.Get("payload") != "" {
		forms = append(forms, bodyVariant{"that was put into the field payload of a form", []byte(form.Get("payload"))})
	}
	return forms
}

var escapeInForm = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// inLatin1 undoes a conversion from Latin-1; a text of other characters stays as it is.
func inLatin1(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r > 0xff {
			return text
		}
		out = append(out, byte(r))
	}
	return out
}

// decompressedForDiagnosis returns the body as it is where it is not compressed, or is
// too large to try.
func decompressedForDiagnosis(body []byte) []byte {
	if text, err := decompressed(body, maxRewritten*maxDiagnosedBytes, nil); err == nil && text != nil {
		return text
	}
	return body
}

// jsonStyle is a way in which programs write JSON.
type jsonStyle struct {
	name         string
	colon, comma string
	indent       string // of lines; "": all on one line
	ascii        bool   // everything else as \uXXXX
	slash        bool   // / as \/
	escaped      string // more characters to write as \uXXXX
	upper        bool   // the X in upper case
}

// jsonStyles are the ways in which the libraries of common languages write JSON: what
// stands between tokens, and which characters are escaped.
var jsonStyles = makeStyles()

func makeStyles() (all []jsonStyle) {
	for _, layout := range []jsonStyle{
		{name: "as JSON without white space", colon: ":", comma: ","},
		{name: "as JSON with a blank after each colon and comma", colon: ": ", comma: ", "},
		{name: "as JSON indented by two blanks", colon: ": ", comma: ",", indent: "  "},
		{name: "as JSON indented by four blanks", colon: ": ", comma: ",", indent: "    "},
		{name: "as JSON indented by tabs", colon: ": ", comma: ",", indent: "\t"},
	} {
		for _, escapes := range []jsonStyle{
			{name: ""},
			{name: ", with escapes in capitals", upper: true},
			{name: ", with escapes for everything but ASCII", ascii: true},
			{name: ", with escapes for everything but ASCII, in capitals", ascii: true, upper: true},
			{name: ", with escapes for /", slash: true},
			{name: ", with escapes for @", escaped: "@"},
			{name: ", with escapes for @ and everything but ASCII", ascii: true, escaped: "@"},
			{name: ", with escapes for <, @ and everything but ASCII", ascii: true, escaped: "<@"},
			{name: ", with escapes for / and @", slash: true, escaped: "@"},
			{name: ", with escapes for / and everything but ASCII", ascii: true, slash: true},
			{name: ", with the escapes that Meta writes", ascii: true, slash: true, escaped: "<@"},
			{name: ", with escapes for <, > and &", escaped: "<>&\u2028\u2029"},
			{name: ", with escapes for <, >, & and everything but ASCII", ascii: true, escaped: "<>&"},
			{name: ", with the escapes that Gson writes", escaped: "<>&='\u2028\u2029"},
			{name: ", with the escapes that .NET writes", ascii: true, upper: true, escaped: "<>&'+`\""},
		} {
			if layout.indent != "" && escapes.upper {
				continue // no library is known that writes so
			}
			style := escapes
			style.name = layout.name + escapes.name
			style.colon, style.comma, style.indent = layout.colon, layout.comma, layout.indent
			all = append(all, style)
		}
	}
	return all
}

// rewrite writes valid JSON in the style, with members and numbers as they are. It
// returns nil where that takes too much room: a sender can nest without end.
func (s jsonStyle) rewrite(in []byte) []byte {
	var out []byte
	depth := 0
	line := func() {
		if s.indent != "" {
			out = append(append(out, '\n'), strings.Repeat(s.indent, depth)...)
		}
	}
	for i := 0; i < len(in); i++ {
		if len(out) > maxRewritten*maxDiagnosedBytes {
			return nil
		}
		switch c := in[i]; c {
		case ' ', '\t', '\r', '\n':
		case '"':
			end := endOfString(in, i)
			out = s.appendString(out, in[i:end])
			i = end - 1
		case '{', '[':
			out = append(out, c)
			depth++
			if next := bytes.TrimLeft(in[i+1:], " \t\r\n"); len(next) > 0 && next[0] != c+2 { // ASCII has } two after {, and ] two after [
				line()
			}
		case '}', ']':
			depth--
			if last := out[len(out)-1]; last != c-2 {
				line()
			}
			out = append(out, c)
		case ',':
			out = append(out, s.comma...)
			line()
		case ':':
			out = append(out, s.colon...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// endOfString returns the place after the closing quote.
func endOfString(in []byte, start int) int {
	for i := start + 1; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(in)
}

func (s jsonStyle) appendString(out, literal []byte) []byte {
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return append(out, literal...)
	}
	out = append(out, '"')
	for _, r := range text {
		short := strings.IndexRune("\"\\\b\f\n\r\t", r)
		switch {
		case short >= 0 && (r != '"' || !strings.ContainsRune(s.escaped, '"')):
			out = append(out, '\\', `"\bfnrt`[short])
		case r == '/' && s.slash:
			out = append(out, `\/`...)
		case r < ' ' || r >= utf8.RuneSelf && s.ascii || strings.ContainsRune(s.escaped, r):
			out = s.appendEscape(out, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

func (s jsonStyle) appendEscape(out []byte, r rune) []byte {
	format := `\u%04x`
	if s.upper {
		format = `\u%04X`
	}
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(out, format+format, high, low)
	}
	return fmt.Appendf(out, format, r)
}

// tryURLs looks for a spelling of the public URL that the signature is right for.
func (v *Verifier) tryURLs(ctx context.Context, r *incoming) *Rejection {
	configured := v.settings["public_url"]
	if configured == "" || len(r.Body) > maxDiagnosedBytes {
		return nil
	}
	base, query, _ := strings.Cut(configured, "?")
	candidates := []string{swapScheme(base), strings.TrimSuffix(base, "/"), base + "/", swapScheme(strings.TrimSuffix(base, "/")), swapScheme(base) + "/"}
	candidates = append(candidates, otherPorts(base)...)
	if r.URL != nil {
		if scheme, rest, ok := strings.Cut(base, "://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			candidates = append(candidates, scheme+"://"+host+r.URL.EscapedPath())
		}
	}
	for _, candidate := range candidates {
		if candidate == base {
			continue
		}
		if query != "" {
			candidate += "?" + query
		}
		if v.withSettings(map[string]string{"public_url": candidate}).verifies(ctx, r) {
			return reject(ReasonWrongURL, fmt.Sprintf("the signature is right for the URL %.300q, and the setting public_url is another", candidate),
				"set public_url to the URL that was entered at "+v.provider.Title)
		}
	}
	return nil
}

// trySettings looks for values of the settings of hmac that the signature is right
// with: they are often guessed.
func (v *Verifier) trySettings(ctx context.Context, r *incoming) *Rejection {
	if v.provider != &genericHMAC || len(r.Body) > maxDiagnosedBytes {
		return nil
	}
	for _, hash := range []string{"sha256", "sha1", "sha512"} {
		for _, written := range []encoding{hexDigits, base64Std} {
			for _, form := range []keyForm{textKey, base64Key, hexKey} {
				other := v.withSettings(map[string]string{"hash": hash, "encoding": string(written), "key_encoding": string(form)})
				if other.verifies(ctx, r) {
					return reject(ReasonWrongSettings, "the signature is right with other settings",
						fmt.Sprintf("set hash to %s, encoding to %s and key_encoding to %s", hash, written, form))
				}
			}
		}
	}
	for _, template := range []string{"{body}", "{timestamp}.{body}", "{timestamp}{body}", "{timestamp}:{body}", "v0:{timestamp}:{body}", "{body}{timestamp}", "{id}.{timestamp}.{body}", "{id}{timestamp}{body}", "{method}{url}{body}", "{url}{body}"} {
		if strings.Contains(template, "{id}") && v.settings["id_header"] == "" || strings.Contains(template, "{url}") && v.settings["public_url"] == "" ||
			strings.Contains(template, "{timestamp}") && v.settings.stamp().unit == noUnit {
			continue
		}
		for _, written := range []encoding{hexDigits, base64Std} {
			if v.withSettings(map[string]string{"template": template, "encoding": string(written)}).verifies(ctx, r) {
				return reject(ReasonWrongSettings, "the signature is right with other settings", fmt.Sprintf("set template to %s and encoding to %s", template, written))
			}
		}
	}
	for _, prefix := range []string{"", "sha256=", "sha1=", "sha512=", "v1=", "v0=", "v1,"} {
		if prefix != v.settings["prefix"] && v.withSettings(map[string]string{"prefix": prefix}).verifies(ctx, r) {
			return reject(ReasonWrongSettings, "the signature is right with other settings", fmt.Sprintf("set prefix to %q", prefix))
		}
	}
	return nil
}

// withSettings returns a verifier with some other settings.
func (v *Verifier) withSettings(changed map[string]string) *Verifier {
	other := *v
	other.settings = maps.Clone(v.settings)
	maps.Copy(other.settings, changed)
	other.schemes = v.provider.schemesFor(other.settings)
	other.useSecrets(v.secrets)
	return &other
}

func swapScheme(address string) string {
	if rest, found := strings.CutPrefix(address, "https://"); found {
		return "http://" + rest
	}
	return "https://" + strings.TrimPrefix(address, "http://")
}
