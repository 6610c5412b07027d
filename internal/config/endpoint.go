package config

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
	"github.com/posthaste-dev/posthaste/signature"
)

// roles are all roles that the contract names; dashboard is known and not built yet.
var roles = []string{"accept", "inbound", "deliver", "relay", "dashboard"}

func (r *reader) roles() Roles {
	var out Roles
	for role := range strings.SplitSeq(r.text("roles"), ",") {
		switch role = strings.TrimSpace(role); {
		case role == "accept":
			out.Accept = true
		case role == "inbound":
			out.Inbound = true
		case role == "deliver":
			out.Deliver = true
		case role == "relay":
			out.Relay = true
		case !slices.Contains(roles, role):
			r.wrong("roles", "holds %q; want some of %s", role, strings.Join(roles, ", "))
		}
	}
	// A default that names roles of later versions is good for this one too, but a
	// replica of those alone would do nothing.
	if out == (Roles{}) && !r.isWrong("roles") {
		r.wrong("roles", "names nothing that is built; want some of accept, inbound, deliver and relay")
	}
	return out
}

// endpoint checks an endpoint as the API would, so that a mistake shows with all
// others rather than when the server has started.
func (r *reader) endpoint(c Config) Endpoint {
	e := Endpoint{URL: r.text("endpoint-url"), Secret: r.text("endpoint-secret")}
	if e.Secret != "" {
		if err := signature.CheckStandard(e.Secret); err != nil {
			r.wrong("endpoint-secret", "cannot be used: %v", err)
		}
	}
	if e.URL == "" {
		if e.Secret != "" {
			r.wrong("endpoint-secret", "is of the endpoint that --endpoint-url names, and there is none")
		}
		return e
	}
	rules := posthaste.DefinitionRules{AllowNetworks: c.AllowNetworks, AllowHTTP: map[deliver.PlainHTTP]posthaste.HTTPRule{
		deliver.HTTPNetworks: posthaste.HTTPInNetworks, deliver.HTTPEverywhere: posthaste.HTTPEverywhere,
	}[c.AllowHTTP]}
	if r.isWrong("allow-networks") || r.isWrong("allow-http") {
		// What is allowed is not known: only what is always wrong is told.
		rules.AllowNetworks = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		rules.AllowHTTP = posthaste.HTTPEverywhere
	}
	d := posthaste.DefaultDefinition()
	d.URL = e.URL
	for _, p := range d.Validate(rules) {
		r.wrong("endpoint-url", "%s; %s", p.Message, p.Hint)
	}
	return e
}
