package posthaste_test

import (
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

func TestHandlerDefinition(t *testing.T) {
	d := posthaste.DefaultHandlerDefinition("meta.message")
	if name, ok := d.Handler(); !ok || name != "meta.message" || d.URL != "func:meta.message" || len(d.Retry.Schedule) != 4 {
		t.Errorf("default: %+v", d)
	}
	if problems := d.ValidateHandler(posthaste.DefinitionRules{}); len(problems) > 0 {
		t.Errorf("default: %v", problems)
	}
	// A request can't make one, however it is written.
	for _, url := range []string{d.URL, "func:", "func://host/", "FUNC:a"} {
		d.URL = url
		if problems := d.Validate(posthaste.DefinitionRules{AllowHTTP: posthaste.HTTPEverywhere}); len(problems) != 1 || problems[0].Field != "url" {
			t.Errorf("%s as the URL of a request: %v", url, problems)
		}
	}
	d = posthaste.DefaultHandlerDefinition("a")
	d.Headers = map[string]string{"X-A": "1"}
	for url, field := range map[string]string{
		"func:": "name", "func:a b": "name", "func:a:b": "name", "func:*": "name", "func:" + strings.Repeat("a", posthaste.MaxHandlerNameBytes+1): "name",
		"https://example.com/": "url",
	} {
		d.URL = url
		problems := d.ValidateHandler(posthaste.DefinitionRules{})
		if len(problems) != 2 || problems[0].Field != field || problems[1].Field != "headers" {
			t.Errorf("%s: %v", url, problems)
		}
	}
}
