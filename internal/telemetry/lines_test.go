package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts the writes that reach it.
type counted struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	return c.text.Write(p)
}

func (c *counted) seen() (writes int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes, c.text.String()
}

func TestLinesAreWrittenTogetherAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out counted
		l := NewLines(&out)
		for i := range 10 {
			_, _ = fmt.Fprintf(l, "line %d\n", i)
		}
		if writes, _ := out.seen(); writes != 0 {
			t.Errorf("%d writes at once", writes)
		}
		time.Sleep(lineDelay)
		synctest.Wait()
		if writes, text := out.seen(); writes != 1 || strings.Count(text, "\n") != 10 {
			t.Errorf("%d writes of %q", writes, text)
		}
		_, _ = l.Write([]byte("last\n"))
		l.Flush()
		if _, text := out.seen(); !strings.HasSuffix(text, "line 9\nlast\n") {
			t.Errorf("after the flush: %q", text)
		}
	})
}

func TestManyLinesDoNotGather(t *testing.T) {
	var out counted
	l := NewLines(&out)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				_, _ = l.Write(line)
			}
		})
	}
	wg.Wait()
	l.Flush()
	writes, text := out.seen()
	if len(text) != 800*1024 {
		t.Errorf("%d bytes came out", len(text))
	}
	if writes > 14 {
		t.Errorf("%d writes for 800 KiB", writes)
	}
}

func BenchmarkLines(b *testing.B) {
	l := NewLines(io.Discard)
	line := []byte(strings.Repeat("x", 250) + "\n")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = l.Write(line)
	}
}
