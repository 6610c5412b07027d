package keyring_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/keyring"
)

func TestOpensOnlyWhatWasSealedForTheSamePlace(t *testing.T) {
	masterKey := keyring.Generate()
	k, other := open(t, masterKey), open(t, keyring.Generate())
	secret := []byte("whsec_dGhpcyBpcyBhIHNlY3JldCBvZiAyNCBi")
	sealed, err := k.Seal("ep_1/1", secret)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, secret[:8]) {
		t.Fatal("the secret can be read in what was sealed")
	}
	got, err := open(t, masterKey).Open("ep_1/1", sealed) // as after a restart
	if err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("opened %q, %v", got, err)
	}
	again, err := k.Seal("ep_1/1", secret)
	if err != nil || bytes.Equal(again, sealed) {
		t.Fatalf("sealing the same twice gives the same bytes (%v)", err)
	}
	altered := bytes.Clone(sealed)
	altered[len(altered)-1] ^= 1
	for name, try := range map[string]func() ([]byte, error){
		"another place": func() ([]byte, error) { return k.Open("ep_2/1", sealed) },
		"another key":   func() ([]byte, error) { return other.Open("ep_1/1", sealed) },
		"altered":       func() ([]byte, error) { return k.Open("ep_1/1", altered) },
		"cut":           func() ([]byte, error) { return k.Open("ep_1/1", sealed[:20]) },
		"nothing":       func() ([]byte, error) { return k.Open("ep_1/1", nil) },
	} {
		if got, err := try(); !errors.Is(err, keyring.ErrSealed) || got != nil {
			t.Errorf("%s: opened %q, %v; want ErrSealed", name, got, err)
		}
	}
}

func TestMasterKeyForms(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb, 0xef}, 16) // "++/v…" in base64: the alphabets differ
	want := open(t, base64.StdEncoding.EncodeToString(raw)).KeyID()
	for _, form := range []string{
		base64.RawStdEncoding.EncodeToString(raw), base64.URLEncoding.EncodeToString(raw),
		base64.RawURLEncoding.EncodeToString(raw), "\n" + base64.StdEncoding.EncodeToString(raw) + "\r\n",
	} {
		if got := open(t, form).KeyID(); got != want {
			t.Errorf("%q names key %s, want %s", form, got, want)
		}
	}
	if other := open(t, keyring.Generate()).KeyID(); other == want || len(other) != 16 {
		t.Errorf("another key has id %q", other)
	}
}

func TestBadMasterKeys(t *testing.T) {
	for key, want := range map[string]string{
		"": "is empty", "  \n": "is empty", "not base64!": "not base64",
		base64.StdEncoding.EncodeToString(make([]byte, 16)): "stands for 16 bytes",
		base64.StdEncoding.EncodeToString(make([]byte, 33)): "stands for 33 bytes",
	} {
		_, err := keyring.New(key)
		if err == nil || !strings.Contains(err.Error(), want) || key != "" && strings.TrimSpace(key) != "" && strings.Contains(err.Error(), key) {
			t.Errorf("New(%q): %v, want %q and not the key", key, err, want)
		}
	}
}

func open(t *testing.T, masterKey string) *keyring.Keyring {
	t.Helper()
	k, err := keyring.New(masterKey)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
