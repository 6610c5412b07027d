//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// receiver is the customer's end: it takes deliveries, answers 200 and notes
// when each event arrived. It is net/http's server, so that it takes whatever
// HTTP an engine's client speaks.
type receiver struct {
	url     string       // of an endpoint that is well
	hangURL string       // of one that never answers
	downURL string       // of one that answers 503
	slowURL string       // of one that takes slowAnswer
	foreign atomic.Int64 // arrivals of no open flow, such as late ones of the warm-up
	flows   sync.Map     // tag -> *recorder
	buffers sync.Pool    // *[]byte of receivedBytes
	server  *http.Server
	stopped chan struct{}
}

// The paths of endpoints that are not well.
const (
	hangPath = "/hang"
	downPath = "/down"
	slowPath = "/slow"
)

// slowAnswer is how long a slow endpoint takes, which is well otherwise.
const slowAnswer = 300 * time.Millisecond

// receivedBytes is the longest delivery that it takes.
const receivedBytes = 64 << 10

// startReceiver listens on a free loopback port. The caller closes it.
func startReceiver() (*receiver, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the receiver: %w", err)
	}
	base := "http://" + ln.Addr().String()
	rc := &receiver{url: base + "/hook", hangURL: base + hangPath, downURL: base + downPath, slowURL: base + slowPath, stopped: make(chan struct{})}
	rc.buffers.New = func() any { b := make([]byte, receivedBytes); return &b }
	rc.server = &http.Server{Handler: http.HandlerFunc(rc.handle), ReadHeaderTimeout: 30 * time.Second}
	go func() {
		defer close(rc.stopped)
		if err := rc.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			fmt.Println("receiver:", err) // the run then shows every event as lost
		}
	}()
	return rc, nil
}

func (rc *receiver) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = rc.server.Shutdown(ctx) // an engine's idle connections may outlast it
	err := rc.server.Close()
	<-rc.stopped
	return err
}

// open makes arrivals of the recorder's flow count; closeFlow ends that.
func (rc *receiver) open(r *recorder)      { rc.flows.Store(r.tag, r) }
func (rc *receiver) closeFlow(r *recorder) { rc.flows.Delete(r.tag) }

func (rc *receiver) handle(w http.ResponseWriter, r *http.Request) {
	buf := rc.buffers.Get().(*[]byte)
	defer rc.buffers.Put(buf)
	body, err := readAll(r.Body, *buf)
	if err != nil {
		// Half a delivery, whose sender went away, is none.
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case hangPath:
		<-r.Context().Done() // the sender has gone away
		return
	case slowPath:
		time.Sleep(slowAnswer)
	case downPath:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if !rc.note(body) {
		rc.foreign.Add(1)
	}
	w.WriteHeader(http.StatusOK)
}

// readAll reads all of in into buf, without an allocation per delivery.
func readAll(in io.Reader, buf []byte) ([]byte, error) {
	for n := 0; ; {
		if n == len(buf) {
			return nil, fmt.Errorf("a delivery of %d bytes or more", n)
		}
		m, err := in.Read(buf[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// note records an arrival, and reports whether it is of an open flow.
func (rc *receiver) note(body []byte) bool {
	tag, seq, ok := findID(body)
	if !ok {
		return false
	}
	v, ok := rc.flows.Load(tag)
	if !ok {
		return false
	}
	rec := v.(*recorder)
	if seq >= len(rec.hits) {
		return false
	}
	at := rec.watch.now()
	if rec.hits[seq].Add(1) == 1 {
		rec.arrived[seq].Store(at)
		rec.distinct.Add(1)
	}
	rec.last.Store(at)
	return true
}
