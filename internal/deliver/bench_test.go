package deliver_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// quickResponse, in the environment, makes the test binary a server of its own:
// the benchmark counts the CPU of its process, and the receiver's is not ours.
const quickResponse = "DELIVER_TEST_QUICK_RESPONSE"

// serveQuickly answers without allocating: a request is over when the body's
// last byte, which nothing else holds, came. It ends with its standard input.
func serveQuickly(response string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for buf := make([]byte, 64<<10); ; {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if bytes.IndexByte(buf[:n], 0) >= 0 {
						io.WriteString(c, response)
					}
				}
			}()
		}
	}()
	io.Copy(io.Discard, os.Stdin)
}

// quickServer starts that server and returns its URL.
func quickServer(b *testing.B, response string) string {
	server := exec.Command(os.Args[0], "-test.run=^$")
	server.Env = append(os.Environ(), quickResponse+"="+response)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = server.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + strings.TrimSpace(address) + "/hook"
}

// cpuTime is what this process has used up, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
			b.ResetTimer()
			before := cpuTime(b)
			b.RunParallel(func(pb *testing.PB) {
				for m := newMessage(body); pb.Next(); {
					if s.Send(b.Context(), target, m).Cause != posthaste.CauseNone {
						failed.Add(1)
					}
				}
			})
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/1e3/float64(b.N), "µs-cpu/op")
			if failed.Load() > 0 {
				b.Errorf("%d attempts failed", failed.Load())
			}
		})
	}
}
