package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
)

// Types that are not the provider's own names.
const (
	malformedType = "malformed"
	unknownType   = "unknown"
	batchType     = "batch"
)

// event makes the event of a verified request.
func (v *Verifier) event(d *document) Event {
	p := v.located()
	var e Event
	isBroken := d.json != nil && !d.isJSON()
	if isBroken || p.body == jsonBody && !d.isReadable() {
		e.Malformed = true
		e.Type = p.Name + "." + malformedType
		e.Warnings = append(e.Warnings, "the signature is right, and the body is neither JSON nor a form that can be read")
		if isBroken { // nothing in it can be found for sure
			d = &document{request: d.request}
		}
		e.DeliveryID = bounded(p.idOf(d))
		return e
	}
	name := p.typeOf(d)
	if name == "" {
		name = unknownType
		e.Warnings = append(e.Warnings, "the request does not say what type of event it is")
	}
	e.Type = validType(p.Name + "." + name)
	if e.Type != p.Name+"."+name {
		e.Warnings = append(e.Warnings, fmt.Sprintf("the provider's type %.200q was rewritten to be a valid one", name))
	}
	e.DeliveryID = bounded(p.idsOf(d))
	if repeated := p.repeatedHeaders(d.request.Header); repeated != "" {
		e.Warnings = append(e.Warnings, "the header "+repeated+" is there more than once, with different values; the first counts")
	}
	return e
}

// itemsOf yields the events of a body: the body itself, unless it is a list of them.
func (p *provider) itemsOf(d *document) iter.Seq[*document] {
	return func(yield func(*document) bool) {
		isList := false
		if p.items != nil {
			for item := range d.itemsAt(p.items...) {
				isList = true
				if !yield(item) {
					return
				}
			}
		}
		if !isList {
			yield(d)
		}
	}
}

// typeOf returns the type that all items have in common.
func (p *provider) typeOf(d *document) (common string) {
	isFirst := true
	for item := range p.itemsOf(d) {
		name := p.typeOfOne(item)
		if !isFirst && name != common {
			return batchType
		}
		common, isFirst = name, false
	}
	return common
}

func (p *provider) typeOfOne(d *document) string {
	if p.named != nil {
		return p.named(d)
	}
	for _, alternative := range p.types {
		name := d.at(alternative[0])
		if name == "" {
			continue
		}
		for _, more := range alternative[1:] {
			if text := d.at(more); text != "" {
				name += "." + text
			}
		}
		return name
	}
	return ""
}

// idsOf returns the id of a delivery, made of all its items' ids. One without an
// id leaves the whole without: a repeated delivery does less harm than a lost one.
func (p *provider) idsOf(d *document) string {
	h, n, alone := sha256.New(), 0, ""
	for item := range p.itemsOf(d) {
		id := p.idOf(item)
		if id == "" {
			return ""
		}
		fmt.Fprintf(h, "%d:%s", len(id), id)
		alone = id
		n++
	}
	if n == 1 {
		return alone
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (p *provider) idOf(d *document) string {
	for _, alternative := range p.ids {
		if texts := d.all(alternative); texts != nil {
			return strings.Join(texts, ":")
		}
	}
	return ""
}

// bounded replaces an id that is too long for a key, or no text, by its hash.
func bounded(id string) string {
	if len(id) <= posthaste.MaxIdempotencyKeyBytes && utf8.ValidString(id) && !strings.ContainsFunc(id, isControl) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// validType replaces what the type of an event cannot have by "_".
func validType(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < utf8.RuneSelf && (isAlphanumeric(byte(r)) || strings.ContainsRune("._-/:", r)) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
		if b.Len() == posthaste.MaxTypeBytes {
			break
		}
	}
	return b.String()
}

// repeatedHeaders names a header that the type or the id is taken from and that is
// there twice with different values.
func (p *provider) repeatedHeaders(h http.Header) string {
	for _, places := range append(p.types[:len(p.types):len(p.types)], p.ids...) {
		for _, where := range places {
			if where.header != "" && len(h.Values(where.header)) > 1 && single(h, where.header) == "" {
				return where.header
			}
		}
	}
	return ""
}
