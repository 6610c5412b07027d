package inbound

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Whoever knows the URL of a source can name keys that nobody has, minute after
// minute. A key that was found stays usable, also once it is to be fetched anew.
func TestMadeUpKeysMakeNoRealOneUnusable(t *testing.T) {
	c := newKeyCache()
	find := func(context.Context) (key, error) { return key{bytes: []byte("real")}, nil }
	if _, err := c.get(t.Context(), "real", find); err != nil {
		t.Fatal(err)
	}
	inVain := errors.New("no such key")
	made := 0
	attack := func() {
		c.mu.Lock()
		c.minute = time.Time{} // the next minute has begun
		c.mu.Unlock()
		for range 2 * maxFetches {
			made++
			_, err := c.get(t.Context(), fmt.Sprint("made up ", made), func(context.Context) (key, error) { return key{}, inVain })
			if !errors.Is(err, inVain) && !errors.Is(err, errTooManyNew) {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		attack()
		if _, err := c.get(t.Context(), "real", find); err != nil {
			t.Fatalf("the real key: %v", err)
		}
		if len(c.entries) > maxCachedKeys {
			t.Fatalf("%d keys", len(c.entries))
		}
	}
	c.entries["real"].expires = time.Now().Add(-time.Second)
	for range 10 {
		attack()
		if _, err := c.get(t.Context(), "real", find); err != nil {
			t.Fatalf("the real key, an hour later: %v", err)
		}
	}
}
