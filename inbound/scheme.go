package inbound

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scheme is a way of signing, as data.
type scheme struct {
	signature grammar
	algorithm algorithm
	form      keyForm // what a secret's text stands for

	// template is the signed content, with {body}, {timestamp}, {id}, {method} and
	// {url} in it. A timestamp that is in the body has no place of its own in it.
	template string

	timestamp stamp
	when      [2]string                    // a header and the value that chooses the scheme; empty: always
	id        string                       // header of {id}
	urls      func(public string) []string // spellings of {url} to try; nil: as it is
}

// grammar is how signatures are written in a header.
type grammar struct {
	header      string   // name of the header
	aliases     []string // other names that it has
	numbered    int      // the name is followed by 1, 2, … up to this; 0: not
	separator   string   // between the entries of a list; "": one entry
	prefix      string   // of an entry that is a signature: "sha256=", "v1=", "v1,"
	stampPrefix string   // of the entry that is the timestamp: "t="
	encoding    encoding
}

// stamp is where the time of signing is. How far it may be from the receipt is a
// setting of the provider.
type stamp struct {
	in   place // unless the grammar has it
	unit unit
}

type unit string

const (
	noUnit       unit = ""
	seconds      unit = "seconds"
	milliseconds unit = "milliseconds"
	rfc3339      unit = "RFC 3339"
	anyUnit      unit = "any"
)

// Limits of what is parsed, so that a sender cannot choose how much work it is.
const (
	maxSignatureBytes = 4 << 10 // of one header
	// maxSignatures bounds the signatures of one request: more than any sender needs while
	// it replaces keys. DocuSign writes one for each of up to 100 keys, in headers of
	// their own, and the body is hashed once for all of them.
	maxSignatures = 16
	// maxPublicKeySignatures bounds those that hash the body once each.
	maxPublicKeySignatures = 3
)

// claim is what one header says: entries that may be signatures, and their time.
type claim struct {
	timestamp  string
	signatures [][]byte
}

// values returns the headers of the grammar, repeated ones too.
func (g grammar) values(h http.Header) (values []string) {
	names := append([]string{g.header}, g.aliases...)
	for i := range g.numbered {
		names = append(names, g.header+strconv.Itoa(i+1))
	}
	for _, name := range names {
		values = append(values, h.Values(name)...)
	}
	return values
}

// parse takes a header's value apart. ok says that at least one entry is of this
// grammar; entries that are not are skipped, as new versions of signatures are
// sent beside old ones.
func (g grammar) parse(value string) (c claim, ok bool) {
	if len(value) > maxSignatureBytes {
		return claim{}, false
	}
	entries := []string{value}
	if g.separator != "" {
		entries = strings.Split(value, g.separator)
	}
	stamps := 0
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if text, found := strings.CutPrefix(entry, g.stampPrefix); found && g.stampPrefix != "" {
			c.timestamp = text
			stamps++
			continue
		}
		text, found := strings.CutPrefix(entry, g.prefix)
		if !found || text == "" || len(c.signatures) > maxSignatures {
			continue
		}
		if signature, err := g.encoding.decode(text); err == nil {
			c.signatures = append(c.signatures, signature)
		}
	}
	return c, len(c.signatures) > 0 && (g.stampPrefix == "" || stamps == 1)
}

// present reports whether a request has a signature of this scheme, however it is written.
func (s scheme) present(h http.Header) bool {
	if s.when[0] != "" && h.Get(s.when[0]) != s.when[1] {
		return false
	}
	for _, value := range s.signature.values(h) {
		if s.signature.separator == "" || strings.Contains(value, s.signature.prefix) {
			return true
		}
	}
	return false
}

// verifySchemes lets the first scheme decide that the request has a signature of
// and the verifier a key for. Schemes stand in the order of their strength, so a
// weak signature beside a strong one does not count.
func (v *Verifier) verifySchemes(r *incoming) *Rejection {
	for i, s := range v.schemes {
		if len(v.rings[i]) > 0 && s.present(r.Header) {
			return v.verifyScheme(r, s, v.rings[i])
		}
	}
	for _, s := range v.schemes {
		if s.present(r.Header) {
			return reject(ReasonWrongSecret, fmt.Sprintf("the request is signed in %s, and none of the secrets is for that kind of signature", s.signature.header), v.provider.Secret)
		}
	}
	s := v.schemes[0]
	if len(s.signature.values(r.Header)) > 0 {
		return malformedSignature(s)
	}
	return reject(ReasonMissingHeader, "the header "+s.signature.name()+" is missing", "check that a secret is set at "+v.provider.Title+" and that no proxy removes the header")
}

func (g grammar) name() string {
	if g.numbered > 0 {
		return g.header + "1"
	}
	return g.header
}

func malformedSignature(s scheme) *Rejection {
	hint := "it should read " + s.signature.example()
	return reject(ReasonMalformedHeader, "the header "+s.signature.name()+" has no signature in it that can be read", hint)
}

func (g grammar) example() string {
	text := g.prefix + strings.ToUpper(string(g.encoding))
	if g.stampPrefix != "" {
		text = g.stampPrefix + "TIMESTAMP" + g.separator + text
	}
	return text
}

func (v *Verifier) verifyScheme(r *incoming, s scheme, ring []key) *Rejection {
	c, problem := s.claimOf(r.Header)
	if problem != nil {
		return problem
	}
	timestamp, problem := s.timestampOf(r, c)
	if problem != nil {
		return problem
	}
	matched, problem := v.matches(r, s, ring, signed{timestamp: timestamp, signatures: c.signatures})
	switch {
	case problem != nil:
		return problem
	case matched && s.timestamp.in.path != nil:
		if !r.document().isReadable() {
			return nil // the time is in a body that is of no use to anybody
		}
		return v.checkFresh(s.timestamp.unit, r.document().at(s.timestamp.in), r.At)
	case matched:
		return v.checkFresh(s.timestamp.unit, timestamp, r.At)
	case s.algorithm == equality:
		return reject(ReasonWrongToken, "the value of "+s.signature.header+" is none of the secrets", "compare it with what is set at "+v.provider.Title)
	case s.algorithm.size() != 0 && !slices.ContainsFunc(c.signatures, func(b []byte) bool { return len(b) == s.algorithm.size() }):
		return reject(ReasonMalformedHeader, fmt.Sprintf("the signature in %s has not the length of %s written in %s", s.signature.name(), s.algorithm, s.signature.encoding),
			"it should read "+s.signature.example())
	}
	return v.noMatch()
}

// claimOf gathers what all headers of a scheme claim, so that the body is hashed once
// for all of them. Two that say different times, or very many, are a sender's who
// wants to make work.
func (s scheme) claimOf(h http.Header) (all claim, problem *Rejection) {
	values := s.signature.values(h)
	most := maxSignatures
	switch {
	case s.signature.numbered > 0:
		most = s.signature.numbered
	case s.algorithm == ed25519Signature || s.algorithm == ecdsaSHA256:
		most = maxPublicKeySignatures
	}
	for _, value := range values[:min(len(values), most+1)] {
		c, ok := s.signature.parse(value)
		if !ok {
			continue
		}
		if all.signatures != nil && c.timestamp != all.timestamp {
			return all, reject(ReasonMalformedHeader, "the header "+s.signature.name()+" is there twice, with different timestamps", "")
		}
		all.timestamp = c.timestamp
		all.signatures = append(all.signatures, c.signatures...)
	}
	if len(values) > most || len(all.signatures) > most {
		return all, reject(ReasonMalformedHeader, fmt.Sprintf("the request has more than %d signatures", most), "no sender needs so many")
	}
	if all.signatures == nil {
		return all, malformedSignature(s)
	}
	return all, nil
}

func (v *Verifier) noMatch() *Rejection {
	hint := "compare the secret with the one at " + v.provider.Title
	if v.provider.mixedUp != "" {
		hint += ": " + v.provider.mixedUp
	}
	return reject(ReasonWrongSecret, "the signature matches none of the secrets", hint+". If it is the right one, something changed the request on its way, or it is forged")
}

// signed is what a request claims to be signed with.
type signed struct {
	timestamp  string
	signatures [][]byte
}

func (v *Verifier) matches(r *incoming, s scheme, ring []key, claimed signed) (bool, *Rejection) {
	id := ""
	if strings.Contains(s.template, "{id}") {
		if id = single(r.Header, s.id); id == "" {
			return false, reject(ReasonMissingHeader, "the header "+s.id+" is missing, empty or repeated", "the signature covers it")
		}
		// Else the full stop that ends the id could be any of several.
		if strings.Contains(s.template, "{id}.") && strings.Contains(id, ".") {
			return false, reject(ReasonMalformedHeader, "the header "+s.id+" has a full stop in it", "")
		}
	}
	r.signedID, r.signedTime = id, claimed.timestamp
	for _, address := range v.addresses(r, s) {
		content := fill(s.template, map[string][]byte{
			"timestamp": []byte(claimed.timestamp), "id": []byte(id), "method": []byte(r.Method), "url": []byte(address), "body": r.Body,
		})
		for _, k := range ring {
			if s.algorithm.matches(k, content, claimed.signatures) {
				return true, nil
			}
		}
	}
	return false, nil
}

// timestampOf returns the signed timestamp as it is written.
func (s scheme) timestampOf(r *incoming, c claim) (string, *Rejection) {
	switch {
	case s.timestamp.unit == noUnit:
		return "", nil
	case s.signature.stampPrefix != "":
		return c.timestamp, nil
	case s.timestamp.in.header == "":
		return "", nil // in the body, which is read when the signature was found right
	}
	text := single(r.Header, s.timestamp.in.header)
	if text == "" {
		return "", reject(ReasonMissingHeader, "the header "+s.timestamp.in.header+" is missing, empty or repeated", "the signature covers it")
	}
	return text, nil
}

// single returns the value of a header that has exactly one, or "". Of two, one
// could be the signed one and the other the one that is used.
func single(h http.Header, name string) string {
	values := h.Values(name)
	for _, v := range values {
		if v != values[0] {
			return ""
		}
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// checkFresh runs after the signature was found right, so that a tolerance that is
// too short shows as such.
func (v *Verifier) checkFresh(u unit, text string, received time.Time) *Rejection {
	if u == noUnit {
		return nil
	}
	at, err := u.parse(text)
	if err != nil {
		return reject(ReasonMalformedHeader, "the signed timestamp "+err.Error(), "")
	}
	tolerance, off := v.settings.duration("tolerance"), received.Sub(at)
	if tolerance == 0 || off.Abs() <= tolerance {
		return nil
	}
	when := off.Abs().Round(time.Second).String() + " before the request was received"
	hint := "if genuine deliveries arrive late, raise the setting tolerance; else this is an old request that was sent again"
	if off < 0 {
		when, hint = off.Abs().Round(time.Second).String()+" in the future", "compare the clocks"
	}
	return reject(ReasonStaleTimestamp, fmt.Sprintf("the signature is right, and its timestamp is %s; at most %s is tolerated", when, tolerance), hint)
}

// Digits of a timestamp between the years 2001 and 2286. That their number is fixed
// is needed where the body follows at once: else the same signed bytes could be cut
// into timestamp and body in several ways.
const (
	secondsDigits      = 10
	millisecondsDigits = 13
)

func (u unit) parse(text string) (time.Time, error) {
	if u == rfc3339 || u == anyUnit && strings.Contains(text, "T") {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return time.Time{}, errors.New("is not a time such as 2026-01-02T15:04:05Z")
		}
		return at, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	isNumber := err == nil && strings.Trim(text, "0123456789") == ""
	switch {
	case isNumber && len(text) == secondsDigits && u != milliseconds:
		return time.Unix(n, 0), nil
	case isNumber && len(text) == millisecondsDigits && u != seconds:
		return time.UnixMilli(n), nil
	case u == anyUnit:
		return time.Time{}, errors.New("is not a number of seconds or milliseconds, nor a time such as 2026-01-02T15:04:05Z")
	}
	return time.Time{}, fmt.Errorf("is not a number of %s", u)
}

// fill returns the parts of the signed content, without copying the body.
func fill(template string, values map[string][]byte) (parts [][]byte) {
	for rest := template; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		if before != "" {
			parts = append(parts, []byte(before))
		}
		if !found {
			break
		}
		name, after, _ := strings.Cut(after, "}")
		parts = append(parts, values[name])
		rest = after
	}
	return parts
}
