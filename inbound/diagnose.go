package inbound

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
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
	}
	return found
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
	for _, form := range otherForms(r) {
		if bytes.Equal(form.body, r.Body) {
			continue
		}
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
	if !json.Valid(r.Body) {
		return forms
	}
	for _, s := range jsonStyles {
		if body := s.rewrite(r.Body); body != nil {
			forms = append(forms, bodyVariant{s.name, body})
		}
	}
	return forms
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

var jsonStyles = []jsonStyle{
	{name: "as JSON without white space", colon: ":", comma: ","},
	{name: "as JSON with escapes in capitals", colon: ":", comma: ",", upper: true},
	{name: "as JSON with escapes for everything but ASCII", colon: ":", comma: ",", ascii: true},
	{name: "as JSON with escapes for everything but ASCII, in capitals", colon: ":", comma: ",", ascii: true, upper: true},
	{name: "as JSON with escapes for / and everything but ASCII", colon: ":", comma: ",", ascii: true, slash: true},
	{name: "as JSON with the escapes that Meta writes", colon: ":", comma: ",", ascii: true, slash: true, escaped: "<@"},
	{name: "as JSON with escapes for <, > and &", colon: ":", comma: ",", escaped: "<>&"},
	{name: "as JSON with a blank after each colon and comma", colon: ": ", comma: ", ", ascii: true},
	{name: "as JSON with a blank after each colon and comma", colon: ": ", comma: ", "},
	{name: "as JSON indented by two blanks", colon: ": ", comma: ",", indent: "  "},
	{name: "as JSON indented by four blanks", colon: ": ", comma: ",", indent: "    "},
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
		case short >= 0:
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
	if configured == "" {
		return nil
	}
	base, query, _ := strings.Cut(configured, "?")
	candidates := []string{swapScheme(base), strings.TrimSuffix(base, "/"), base + "/"}
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
