package posthaste

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration whose JSON form is a Go string such as "30s",
// "5m" or "72h".
type Duration time.Duration

// MarshalJSON writes the shortest Go form: "5m" rather than "5m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a Go duration string.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf(`want a string such as "30s", "5m" or "72h"`)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf(`%q is not a duration such as "30s", "5m" or "72h"`, s)
	}
	*d = Duration(v)
	return nil
}

// String returns the Go form without trailing zero units.
func (d Duration) String() string {
	s := time.Duration(d).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if n := len(s) - len(zero) + 1; n > 0 && s[n-1:] == zero {
			s = s[:n]
		}
	}
	return s
}
