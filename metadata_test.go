package posthaste_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

func TestValidateUID(t *testing.T) {
	for uid, valid := range map[string]bool{
		"a": true, "customer:42": true, "A.b_c-D:9": true, ".": true, strings.Repeat("x", posthaste.MaxUIDBytes): true,
		"": false, "a/b": false, "a b": false, "a%20": false, "ü": false, "a?b": false, "a#b": false, "a\x00": false,
		strings.Repeat("x", posthaste.MaxUIDBytes+1): false,
	} {
		problems := posthaste.ValidateUID("uid", uid)
		if (len(problems) == 0) != valid {
			t.Errorf("%q: %v, want valid %t", uid, problems, valid)
		}
		if valid && url.PathEscape("uid:"+uid) != "uid:"+uid {
			t.Errorf("%q has to be escaped in a path", uid)
		}
	}
}

func TestValidateMetadata(t *testing.T) {
	many := map[string]string{}
	for i := range posthaste.MaxMetadataEntries {
		many[fmt.Sprint("k", i)] = strings.Repeat("v", posthaste.MaxMetadataValueBytes)
	}
	if p := posthaste.ValidateMetadata("metadata", many); p != nil {
		t.Errorf("as much as may be: %v", p)
	}
	many["one more"] = ""
	if p := posthaste.ValidateMetadata("metadata", many); len(p) != 1 || p[0].Field != "metadata" {
		t.Errorf("one too many: %v", p)
	}
	bad := map[string]string{
		"": "x", "a\x00": "x", "b": "\xff", "c": strings.Repeat("v", posthaste.MaxMetadataValueBytes+1),
		strings.Repeat("k", posthaste.MaxMetadataKeyBytes+1): "x", "fine": "ok",
	}
	if p := posthaste.ValidateMetadata("metadata", bad); len(p) != 5 {
		t.Errorf("%d problems, want 5: %v", len(p), p)
	}
}
