package inhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/inhttp"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// begin sends the beginning of a request to a source and leaves the rest out.
func (s *server) begin(row store.SourceRow, headers, body string) net.Conn {
	s.t.Helper()
	at, err := url.Parse(s.at(row))
	must(s.t, err)
	c, err := net.Dial("tcp", at.Host)
	must(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n%s", at.Path, headers, body)
	must(s.t, err)
	return c
}

// Connections that declare much and send nothing take no room, of their own source
// neither.
func TestSilentSenders(t *testing.T) {
	s := start(t, openSQLite(t))
	attacked, other := s.source("github"), s.source("github")
	for range 100 {
		s.begin(attacked, "Content-Length: 8388608\r\n", "")
		s.begin(attacked, "Content-Length: 8388608\r\n", "x")
		s.begin(attacked, "Transfer-Encoding: chunked\r\n", "1\r\na\r\n")
	}
	for i := range 20 {
		s.push(other, fmt.Sprint("d-", i), fmt.Sprintf("[%d]", i)).want(t, 200)
		s.push(attacked, fmt.Sprint("d-", i), fmt.Sprintf("[%d]", i)).want(t, 200)
	}
}

// Who is silent or slow is cut off long before the time that a body may take.
func TestSlowSendersAreCut(t *testing.T) {
	s := start(t, openSQLite(t), func(_ *pipeline.Config, c *inhttp.Config) {
		c.Patience, c.BodyTimeout = 100*time.Millisecond, time.Hour
	})
	row := s.source("github")
	ended := make(chan string, 3)
	for what, c := range map[string]net.Conn{
		"silent":         s.begin(row, "Content-Length: 8388608\r\n", ""),
		"silent, late":   s.begin(row, "Transfer-Encoding: chunked\r\n", "1000\r\n"+strings.Repeat("x", 0x1000)),
		"a byte a while": s.begin(row, "Content-Length: 8388608\r\n", "x"),
	} {
		if what == "a byte a while" {
			go func() {
				for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
					if _, err := c.Write([]byte("x")); err != nil {
						tick.Stop()
						return
					}
				}
			}()
		}
		go func() {
			line, err := bufio.NewReader(c).ReadString('\n')
			if err == nil && !strings.Contains(line, "400") {
				line = "answered " + line
			} else {
				line = ""
			}
			_, _ = io.Copy(io.Discard, c) // until it is closed
			ended <- strings.TrimSpace(what + " " + line)
		}()
	}
	for range 3 {
		select {
		case what := <-ended:
			if strings.Contains(what, "answered") {
				t.Error(what)
			}
		case <-time.After(time.Minute):
			t.Fatal("senders are not cut off")
		}
	}
}

// A burst of small deliveries, of declared length or not, to one source or many, is
// taken whole: what one could become is not what it takes.
func TestBurstOfSmallDeliveries(t *testing.T) {
	s := start(t, openSQLite(t))
	row := s.source("github")
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			body := fmt.Sprintf("[%d]", i)
			req, err := http.NewRequest(http.MethodPost, s.at(row), io.NopCloser(strings.NewReader(body))) // chunked
			if err != nil {
				t.Error(err)
				return
			}
			req.Header = push(fmt.Sprint("d-", i), []byte(body))
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("delivery %d is answered %d", i, res.StatusCode)
			}
		})
	}
	all.Wait()
}

// A flood of large bodies to one source, from the same address, never makes another
// source answer 503.
func TestFloodOfOneSource(t *testing.T) {
	s := start(t, openSQLite(t))
	attacked, other := s.source("github"), s.source("github")
	flood := make(chan struct{})
	var all sync.WaitGroup
	large := strings.Repeat("x", 8<<20)
	wrong := push("d", []byte("y"))
	for range 30 {
		all.Go(func() {
			for {
				select {
				case <-flood:
					return
				default:
				}
				req, _ := http.NewRequest(http.MethodPost, s.at(attacked), strings.NewReader(large))
				req.Header = wrong.Clone()
				if res, err := http.DefaultClient.Do(req); err == nil {
					res.Body.Close()
				}
			}
		})
	}
	for i := range 30 {
		s.push(other, fmt.Sprint("d-", i), fmt.Sprintf("[%d]", i)).want(t, 200)
	}
	close(flood)
	all.Wait()
}
