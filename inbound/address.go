package inbound

import (
	"net/url"
	"strings"
)

// publicURL is the setting of providers that sign the URL they were given.
func publicURL() Setting {
	return Setting{
		Name: "public_url", Required: true, problem: publicURLProblem,
		Meaning: "the URL of the source as it was entered at the provider, or its beginning, such as https://hooks.example.com, where the path is the " +
			"source's own. The signature covers it, and it is never made up from the request's Host header",
	}
}

// addresses returns the URLs that a signature of the scheme may cover: the
// configured one with the query that the request came with, and as it is.
func (v *Verifier) addresses(r *incoming, s scheme) []string {
	if !strings.Contains(s.template, "{url}") {
		return []string{""}
	}
	var all []string
	for _, address := range v.publicURLs(r) {
		all = append(all, address)
		if s.urls != nil {
			all = append(all, s.urls(address)...)
		}
	}
	return all
}

// publicURLs returns what the sender may have had as URL: host and scheme are the
// configured ones, path and query may be the request's.
func (v *Verifier) publicURLs(r *incoming) []string {
	configured, _, _ := strings.Cut(v.settings["public_url"], "#") // a fragment is never sent
	base, query, _ := strings.Cut(configured, "?")
	if r.URL == nil {
		return []string{configured}
	}
	_, rest, _ := strings.Cut(base, "://")
	if host, path, _ := strings.Cut(rest, "/"); path == "" {
		base = strings.TrimSuffix(base, rest) + host + r.URL.EscapedPath()
	}
	// A query that holds the beginning of a body could be signed as a longer one with
	// a shorter body.
	if r.URL.RawQuery != "" && !strings.ContainsAny(r.URL.RawQuery, "{[\"") {
		query = r.URL.RawQuery
	}
	address := base
	if query != "" {
		address += "?" + query
	}
	if address == configured {
		return []string{configured}
	}
	return []string{address, configured}
}

// otherPorts returns the URL with and without the port: Twilio's own libraries try
// both, as some of its products sign the default port and some leave any port out.
func otherPorts(address string) []string {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	scheme, rest, _ := strings.Cut(address, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	tail := rest[end:]
	if u.Port() != "" {
		return []string{scheme + "://" + strings.TrimSuffix(u.Host, ":"+u.Port()) + tail}
	}
	port := map[string]string{"https": ":443", "http": ":80"}[scheme]
	return []string{scheme + "://" + u.Host + port + tail}
}

// hubspotEscapes are those that HubSpot undoes in a URL before it signs it.
// Source: HubSpot's documentation on validating requests, version 3.
var hubspotEscapes = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";")

func hubspotDecoded(address string) []string {
	if decoded := hubspotEscapes.Replace(address); decoded != address {
		return []string{decoded}
	}
	return nil
}
