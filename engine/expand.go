package engine

import (
	"fmt"

	"github.com/posthaste-dev/posthaste/inbound/meta"
	"github.com/posthaste-dev/posthaste/internal/inhttp"
)

// expanders are the providers whose deliveries hold several events, by name.
func expanders() map[string]inhttp.Expander {
	return map[string]inhttp.Expander{"meta": expandMeta}
}

// expandMeta makes an event of each item of a webhook of Meta's. Items are
// recognised by their own keys: Meta packs them anew when it sends them again.
func expandMeta(body []byte) (items []inhttp.Item, warnings []string) {
	webhook, err := meta.Parse(body)
	if err != nil {
		return nil, []string{err.Error()}
	}
	for _, item := range webhook.Items {
		items = append(items, inhttp.Item{Type: item.Type, Key: item.Key, Payload: item.Payload, Warnings: item.Warnings})
	}
	if warnings = webhook.Warnings; webhook.Left > 0 {
		warnings = append(warnings, fmt.Sprintf("%d items beyond the first %d are no events of their own", webhook.Left, len(items)))
	}
	return items, warnings
}
