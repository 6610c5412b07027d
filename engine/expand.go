package engine

import "github.com/posthaste-dev/posthaste/internal/inhttp"

// expanders are the providers whose deliveries hold several events, by name.
func expanders() map[string]inhttp.Expander {
	return map[string]inhttp.Expander{}
}
