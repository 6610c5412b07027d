package inbound

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/posthaste-dev/posthaste"
)

// Provider is what there is to know of a provider before a source is set up.
type Provider struct {
	Name  string // "stripe": what [Config.Provider] takes, and how its types begin
	Title string // "Stripe"

	Secret     string // what to give as a secret; empty where the provider has none
	NeedSecret bool   // at least one is needed
	Settings   []Setting

	Signature  string // what is verified, in words
	Types      string // how the types of events are made, with an example
	DeliveryID string // what repeated deliveries are recognised by
	Success    Answer // the answer to a stored delivery
	Handshake  string // what is answered besides deliveries; empty where nothing is
	Retries    string // what the provider does when it is not answered well

	Setup []string // the steps to set it up
	Notes []string // what is good to know
}

// Setting is one of a provider's settings.
type Setting struct {
	Name     string
	Meaning  string
	Default  string // empty: none
	Required bool
	IsSecret bool     // to be kept and shown like a secret
	Values   []string // the values that it may have; nil: see Meaning

	problem func(value string) string // what is wrong with a value, to be read after the setting's name
}

// provider is a row of the table.
type provider struct {
	Provider

	verbs      []string                                               // methods of a delivery; nil: POST
	schemes    []scheme                                               // how it signs: the first one that a request has a signature of, and the verifier a key for, decides
	configured func(s settings) []scheme                              // for those whose schemes depend on the settings
	handshakes []handshake                                            // questions that are no deliveries
	checkKey   func(secret string) string                             // what is wrong with a secret, where no scheme says it
	together   func(secrets []string, s settings) []posthaste.Problem // what is wrong with settings and secrets together

	fetches bool                     // verify may fetch a key
	topic   func(d *document) string // of those whose settings name the topics that are taken

	verify func(ctx context.Context, v *Verifier, r *incoming) (*Rejection, error)                // in place of schemes
	then   func(ctx context.Context, v *Verifier, d *document, verified Outcome) (Outcome, error) // what else an event means
	reply  func(v *Verifier, d *document) Answer                                                  // in place of Success

	mixedUp string // what secrets are often mixed up with, as part of a sentence

	body  bodyForm
	items []string                 // path of the list of events in one body; nil: one event
	types [][]place                // the first alternative that is there, its parts joined with full stops
	named func(d *document) string // in place of types
	ids   [][]place                // the first alternative of which all parts are there
}

func (p *provider) methods() []string {
	if p.verbs == nil {
		return []string{http.MethodPost}
	}
	return p.verbs
}

// schemesFor returns the schemes, with settings that were completed.
func (p *provider) schemesFor(s settings) []scheme {
	if p.configured != nil {
		return p.configured(s)
	}
	return p.schemes
}

func (p *provider) success(v *Verifier, d *document) Answer {
	if p.reply != nil {
		return p.reply(v, d)
	}
	return p.Success
}

// Providers returns all providers, by name.
func Providers() []Provider {
	var list []Provider
	for _, p := range table() {
		list = append(list, p.Provider)
	}
	slices.SortFunc(list, func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// ProviderNamed returns the provider of a name, and whether there is one.
func ProviderNamed(name string) (Provider, bool) {
	p := find(name)
	if p == nil {
		return Provider{}, false
	}
	return p.Provider, true
}

func find(name string) *provider {
	for _, p := range table() {
		if p.Name == name {
			return p
		}
	}
	return nil
}
