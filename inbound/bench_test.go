package inbound_test

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound"
)

// BenchmarkReceive shows what a request costs beside its commit.
func BenchmarkReceive(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		body := `{"id":"evt_1","type":"invoice.paid","data":{"text":"` + strings.Repeat("x", size) + `"}}`
		for _, name := range []string{"genuine", "forged"} {
			b.Run(name+"/"+strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
				now := time.Now()
				stamp := strconv.FormatInt(now.Unix(), 10)
				secret := map[string]string{"genuine": "secret", "forged": "another"}[name]
				v := newVerifier(b, inbound.Config{Provider: "stripe", Secrets: []string{"secret"}}, inbound.Options{})
				r := &inbound.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}, Body: []byte(body), At: now, Header: http.Header{
					"Stripe-Signature": {"t=" + stamp + ",v1=" + hex.EncodeToString(sum(secret, stamp, ".", body))}, "Content-Type": {"application/json"},
				}}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Receive(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
