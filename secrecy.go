package posthaste

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// Masked stands for a value that is never stored or shown.
const Masked = "***"

// HoldsCredentials reports whether a header or a parameter of a URL, by its name, is
// likely to hold credentials. Records, answers, logs and errors show Masked instead of
// its value. WWW-Authenticate is not among them: it is the question, and explains a 401.
func HoldsCredentials(name string) bool {
	var buf [64]byte // every header of every response comes by here: no garbage for the usual name
	lower := buf[:0]
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z':
			lower = append(lower, c|0x20)
		case c == '_' || c == '.':
			lower = append(lower, '-')
		default:
			lower = append(lower, c)
		}
	}
	return holdsCredentials(string(lower))
}

func holdsCredentials(lower string) bool {
	if isHarmless[lower] {
		return false
	}
	for _, part := range [...]string{"token", "secret", "password", "passwd", "credential", "apikey", "cookie", "authorization"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	for rest, more := lower, true; more; {
		var word string
		word, rest, more = strings.Cut(rest, "-")
		switch word {
		case "auth", "authentication", "session", "sessionid", "sid", "jwt", "pwd":
			return true
		case "key":
			if !more { // X-Shared-Key, Ocp-Apim-Subscription-Key
				return true
			}
		}
	}
	return false
}

// isHarmless are names that look like those of credentials and are none.
var isHarmless = map[string]bool{
	"idempotency-key": true, "x-idempotency-key": true, "surrogate-key": true, "x-cache-key": true, "partition-key": true,
	"x-partition-key": true, "routing-key": true, "x-routing-key": true, "order-key": true, "x-order-key": true,
	"ce-partitionkey": true, "ce-key": true, "sec-websocket-key": true, "x-hub-signature": true, "x-github-hook-id": true,
}

// isSecretParameter are names of URL parameters that hold credentials, beside those
// that a header would hold them under.
var isSecretParameter = map[string]bool{
	"key": true, "sig": true, "signature": true, "code": true, "pass": true, "sas": true, "x-amz-signature": true,
}

// MaskURL returns a URL with the credentials in it masked: the password or token before
// "@", and the values of parameters that hold credentials by their name. Everything
// else stays as it is written. It masks all parameters of a URL that cannot be parsed.
func MaskURL(raw string) string {
	head, fragment, hasFragment := strings.Cut(raw, "#")
	base, query, hasQuery := strings.Cut(head, "?")
	if scheme, rest, ok := strings.Cut(base, "://"); ok {
		authority, path, hasPath := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			base = scheme + "://" + Masked + authority[at:]
			if hasPath {
				base += "/" + path
			}
		}
	}
	if hasQuery {
		base += "?" + maskQuery(query)
	}
	if hasFragment { // an OAuth answer, for one
		base += "#" + maskQuery(fragment)
	}
	return base
}

func maskQuery(query string) string {
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, hasValue := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if hasValue && value != "" && (err != nil || IsSecretParameter(plain)) {
			parts[i] = name + "=" + Masked
		}
	}
	return strings.Join(parts, "&")
}

// IsSecretParameter reports whether a URL parameter, by its name, is likely to hold credentials.
func IsSecretParameter(name string) bool {
	return isSecretParameter[strings.ToLower(name)] || HoldsCredentials(name)
}

// SecretParameters returns the values of a URL's parameters that MaskURL masks.
func SecretParameters(raw string) (values []string) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	for name, given := range u.Query() {
		if IsSecretParameter(name) {
			values = append(values, given...)
		}
	}
	slices.Sort(values)
	return values
}

// isMaskedURL reports whether a URL holds what MaskURL puts in the place of credentials.
func isMaskedURL(raw string) bool {
	return strings.Contains(raw, "="+Masked) || strings.Contains(raw, "://"+Masked+"@")
}

// SealedHeader is the value of one of [Definition].SecretHeaders as it is stored.
type SealedHeader struct {
	KeyID       string // names the master key
	Fingerprint string // of the value: equal values have equal ones, under one master key
	Sealed      []byte
}

// sealedMark begins the text of a sealed value. No header's value can begin with it.
const sealedMark = "\x01"

// String returns the text that is stored as the header's value.
func (s SealedHeader) String() string {
	return sealedMark + s.KeyID + "." + s.Fingerprint + "." + base64.RawStdEncoding.EncodeToString(s.Sealed)
}

// IsSealedHeader reports whether the value of a secret header is sealed.
func IsSealedHeader(value string) bool { return strings.HasPrefix(value, sealedMark) }

// ParseSealedHeader reads what String wrote. ok is false for anything else.
func ParseSealedHeader(value string) (s SealedHeader, ok bool) {
	text, ok := strings.CutPrefix(value, sealedMark)
	parts := strings.Split(text, ".")
	if !ok || len(parts) != 3 {
		return s, false
	}
	sealed, err := base64.RawStdEncoding.DecodeString(parts[2])
	return SealedHeader{KeyID: parts[0], Fingerprint: parts[1], Sealed: sealed}, err == nil
}
