package deliver_test

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/posthaste-dev/posthaste"
)

// quickServer answers without allocating, so that the numbers are the sender's:
// a request is over when the body's last byte, which nothing else holds, came.
func quickServer(b *testing.B, response string) string {
	url, _ := rawServer(b, func(c net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if bytes.IndexByte(buf[:n], 0) >= 0 {
				io.WriteString(c, response)
			}
		}
	})
	return url
}

func BenchmarkSend(b *testing.B) {
	body := append(bytes.Repeat([]byte("x"), 1023), 0)
	for name, response := range map[string]string{
		"204": "HTTP/1.1 204 No Content\r\nDate: Sun, 29 Nov 2026 15:00:00 GMT\r\n\r\n",
		"200": "HTTP/1.1 200 OK\r\nDate: Sun, 29 Nov 2026 15:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok",
	} {
		b.Run(name, func(b *testing.B) {
			s := newSender(b, nil)
			target := newTarget(b, quickServer(b, response), long, nil)
			var failed atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for m := newMessage(body); pb.Next(); {
					if s.Send(b.Context(), target, m).Cause != posthaste.CauseNone {
						failed.Add(1)
					}
				}
			})
			if failed.Load() > 0 {
				b.Errorf("%d attempts failed", failed.Load())
			}
		})
	}
}
