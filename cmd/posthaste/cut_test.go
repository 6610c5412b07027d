package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// network lies between one replica and the database: what the replica sends to
// its address goes on to the database, and back, as the weather allows. It is
// ours because it has to do what a proxy at the level of requests cannot: reset
// connections that are in use, and hold bytes back that arrive later all the
// same, after the one who sent them has given up.
type network struct {
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	upstream string
	weather  weather
	changed  chan struct{} // closed and replaced when the weather changes
	links    map[*link]bool
}

// weather is what happens to bytes on their way. The zero value is fine weather.
type weather struct {
	held           bool          // they stay where they are until the weather changes
	answersLost    bool          // what comes from the database is dropped, and its connection reset
	latency        time.Duration // of each read, one way
	bytesPerSecond int           // of each connection, one way; 0: no limit
}

// link is one connection through the network.
type link struct {
	client, server *net.TCPConn
	gone           chan struct{}
	once           sync.Once
}

// newNetwork returns a network and the URL of the database through it.
func newNetwork(t *testing.T, db string) (n *network, through string) {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n = &network{upstream: u.Host, listener: ln, changed: make(chan struct{}), links: map[*link]bool{}}
	n.done.Go(n.serve)
	t.Cleanup(func() {
		_ = ln.Close()
		n.reset()
		n.done.Wait()
	})
	u.Host = ln.Addr().String()
	return n, u.String()
}

func (n *network) serve() {
	for {
		client, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		upstream := n.upstream
		n.mu.Unlock()
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client.(*net.TCPConn), server: server.(*net.TCPConn), gone: make(chan struct{})}
		n.mu.Lock()
		n.links[l] = true
		n.mu.Unlock()
		n.done.Go(func() { n.pump(l, l.client, l.server) })
		n.done.Go(func() { n.pump(l, l.server, l.client) })
	}
}

// pump carries one direction of a link until either end closes. An end that
// closes while bytes are held is noticed only after they have been carried: the
// database gets, and runs, statements that nobody waits for any more.
func (n *network) pump(l *link, from, to *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		size, err := from.Read(buf)
		if err == nil && !n.carry(l, size, from == l.server) {
			l.reset()
			break
		}
		if err == nil {
			_, err = to.Write(buf[:size])
		}
		if err != nil {
			l.close()
			break
		}
	}
	n.mu.Lock()
	delete(n.links, l)
	n.mu.Unlock()
}

// carry waits as long as the bytes take. False: they don't arrive.
func (n *network) carry(l *link, size int, answer bool) bool {
	for {
		n.mu.Lock()
		w, changed := n.weather, n.changed
		n.mu.Unlock()
		if w.answersLost && answer {
			return false
		}
		if !w.held {
			if w.bytesPerSecond > 0 {
				w.latency += time.Duration(size) * time.Second / time.Duration(w.bytesPerSecond)
			}
			return w.latency == 0 || l.pause(w.latency)
		}
		select {
		case <-changed:
		case <-l.gone:
			return false
		}
	}
}

// pause reports whether the link still lives after d.
func (l *link) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.gone:
		return false
	}
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// reset closes both ends with RST, and what was under way is gone.
func (l *link) reset() {
	_ = l.client.SetLinger(0)
	_ = l.server.SetLinger(0)
	l.close()
}

// turn changes the weather.
func (n *network) turn(w weather) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.weather = w
	close(n.changed)
	n.changed = make(chan struct{})
}

// lead makes the network lead to another database, and resets every connection.
func (n *network) lead(t *testing.T, db string) {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.upstream = u.Host
	n.mu.Unlock()
	n.reset()
}

// reset resets every connection that there is.
func (n *network) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		l.reset()
	}
}

// fault is something that networks do.
type fault struct {
	name        string
	weather     weather
	resetBefore bool
	resetAfter  bool // still before the weather is fine again: nothing held is carried
	least, most time.Duration
}

func faults() []fault {
	return []fault{
		{name: "connections reset", resetBefore: true},
		// The statements were run, and nobody is told: each commit of these is unknown.
		{name: "answers lost", weather: weather{answersLost: true}, least: 100 * time.Millisecond, most: 500 * time.Millisecond},
		{name: "black hole", weather: weather{held: true}, resetAfter: true, least: 3 * time.Second, most: 6 * time.Second},
		// Late: what TCP sends again after a hole arrives when its sender has given up.
		{name: "late", weather: weather{held: true}, least: 3 * time.Second, most: 6 * time.Second},
		{name: "latency of 200 ms", weather: weather{latency: 200 * time.Millisecond}, least: 2 * time.Second, most: 4 * time.Second},
		{name: "32 KiB/s", weather: weather{bytesPerSecond: 32 << 10}, least: 2 * time.Second, most: 4 * time.Second},
	}
}

// cuts reports whether outcomes of statements can be lost by it.
func (f fault) cuts() bool { return f.resetBefore || f.weather.held || f.weather.answersLost }

// suffer lets the network have the fault.
func (n *network) suffer(ctx context.Context, f fault, r *rand.Rand) {
	if f.resetBefore {
		n.reset()
	}
	n.turn(f.weather)
	wait(ctx, f.least+time.Duration(r.Int64N(int64(f.most-f.least)+1)))
	if f.resetAfter {
		n.reset()
	}
	n.turn(weather{})
}

// storm makes the network suffer each fault in random order, and again, until
// the time is over. It returns how often it was cut.
func (n *network) storm(t *testing.T, name string, r *rand.Rand, until time.Time) (cuts int) {
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		list := faults()
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, f := range list {
			if t.Context().Err() != nil || round > 0 && time.Now().After(until) {
				return cuts
			}
			wait(t.Context(), 200*time.Millisecond+time.Duration(r.Int64N(int64(time.Second))))
			began := time.Now()
			n.suffer(t.Context(), f, r)
			t.Logf("%s: %s for %v", name, f.name, time.Since(began).Round(time.Millisecond))
			if f.cuts() {
				cuts++
			}
		}
	}
	return cuts
}

// stubborn is a load whose senders do as the 503 says: they send the same event
// with the same key again, to the next replica, until it is accepted. So what a
// commit of unknown outcome has stored comes to light: it was accepted, once,
// and has to arrive.
type stubborn struct {
	load
	revealed int           // keys answered as a duplicate: an earlier try, refused or unanswered, was stored
	slowest  time.Duration // answer, of any kind
}

// unanswered is how long a sender waits for any answer; a 503 has to come
// well before. It isn't the engine's bound, only beyond doubt.
const unanswered = 30 * time.Second

// startStubbornLoad posts from n senders, each to a replica of its own, so that
// one that is cut off doesn't keep load from the others.
func startStubbornLoad(t *testing.T, n int, urls ...string) *stubborn {
	ctx := t.Context()
	var stopping atomic.Bool
	l := &stubborn{load: load{stopped: func() { stopping.Store(true) }, refused: map[int]int{}}}
	client := &http.Client{Timeout: unanswered, Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	var keys atomic.Int64
	for sender := range n {
		l.done.Go(func() {
			for !stopping.Load() && ctx.Err() == nil {
				key := keys.Add(1)
				for try := sender; ctx.Err() == nil && !l.send(ctx, client, urls[try%len(urls)], key); try++ {
					wait(ctx, 50*time.Millisecond)
				}
				wait(ctx, 5*time.Millisecond) // some load, not all that the machine can do
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// send tries once, and reports whether the event was accepted.
func (l *stubborn) send(ctx context.Context, client *http.Client, url string, key int64) bool {
	began := time.Now()
	id, status := post(ctx, client, url, "cut", key)
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowest = max(l.slowest, took)
	switch status {
	case http.StatusOK:
		l.revealed++
		fallthrough
	case http.StatusAccepted:
		l.accepted = append(l.accepted, id)
		return true
	}
	l.refused[status]++
	return false
}

// readiness asks /readyz; 0: no answer.
func (r *replica) readiness() int {
	client := &http.Client{Timeout: 2 * time.Second}
	res, err := client.Get(r.url + "/readyz")
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// cutOff keeps the replica from the database for d. It begins with commits whose
// answers are lost, so that there are events that the database has, the replica
// does not know of, and the sender was refused.
func cutOff(t *testing.T, n *network, r *replica, d time.Duration) {
	t.Helper()
	began := time.Now()
	n.turn(weather{answersLost: true})
	wait(t.Context(), 300*time.Millisecond)
	n.turn(weather{held: true})
	eventually(t, 15*time.Second, "/readyz is 503 while the database is cut off", func() bool { return r.readiness() == http.StatusServiceUnavailable })
	notReady := time.Since(began)
	wait(t.Context(), time.Until(began.Add(d)))
	if got := r.readiness(); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d at the end of a long cut", got)
	}
	n.reset()
	n.turn(weather{})
	mended := time.Now()
	eventually(t, 15*time.Second, "/readyz is 200 after the long cut", func() bool { return r.readiness() == http.StatusOK })
	t.Logf("cut off for %v: not ready after %.1fs, ready %.1fs after it was mended", d, notReady.Seconds(), time.Since(mended).Seconds())
}

func TestCutNetworkToPostgresUnderLoad(t *testing.T) {
	const (
		stormFor  = 30 * time.Second
		reclaimed = 20 * time.Second // the other replica takes the work over meanwhile
		waitedFor = 11 * time.Second // it does not, and senders are answered 503
	)
	db := testdb.Postgres(t)
	c := newCounter(t)
	var networks [2]*network
	var pair [2]*replica
	for i := range pair {
		var through string
		networks[i], through = newNetwork(t, db)
		pair[i] = newReplica(t, through, nil)
		pair[i].start()
	}
	pair[0].endpoint(c.URL)
	l := startStubbornLoad(t, 32, pair[0].url, pair[1].url)
	grow(t, &l.load, 500)

	seed := rand.Uint64()
	t.Logf("seed of the faults: %d", seed)
	var cuts atomic.Int64
	var storms sync.WaitGroup
	until := time.Now().Add(stormFor)
	for i, n := range networks {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		storms.Go(func() { cuts.Add(int64(n.storm(t, fmt.Sprintf("replica %d", i), r, until))) })
	}
	storms.Wait()
	afterStorm := l.count()
	cutOff(t, networks[0], pair[0], reclaimed)
	cutOff(t, networks[1], pair[1], waitedFor)
	cuts.Add(2)
	grow(t, &l.load, 500)
	l.stop()

	arrived(t, c, l.ids(), 60*time.Second, (crashMaxInFlight+crashUnrecorded)*int(cuts.Load()))
	settledEverywhere(t, pair[1], 150*time.Second)
	for status := range l.refused {
		if status != http.StatusServiceUnavailable {
			t.Errorf("%d answers of status %d (0: none), want none but 503", l.refused[status], status)
		}
	}
	stored, distinct := count(t, db, `select count(*) from events`), len(distinctOf(l.ids()))
	if stored != l.count() || distinct != l.count() {
		t.Errorf("%d keys were accepted as %d events, and %d events are stored", l.count(), distinct, stored)
	}
	unstored := pair[0].logged(t, "accept: the batch was not stored") + pair[1].logged(t, "accept: the batch was not stored")
	t.Logf("%d cuts; accepted %d (%d of them in the storm), refused %v, slowest answer %.1fs; batches run again %d, refused but stored and found by their key %d; attempts lost or late %d",
		cuts.Load(), l.count(), afterStorm, l.refused, l.slowest.Seconds(), unstored, l.revealed, count(t, db, `select count(*) from v_attempts where outcome = 'lost' or late`))
	if unstored == 0 || l.revealed == 0 {
		t.Error("no cut hit a commit, or none was left unknown: the test has shown nothing")
	}
	for _, r := range pair { // nothing starts a process again here: one that answers has lived all the time
		eventually(t, 10*time.Second, "the replica is ready in the end", func() bool { return r.readiness() == http.StatusOK })
	}
	verify(t, db)
}

// logged counts the lines of the replica's log that hold the text.
func (r *replica) logged(t *testing.T, text string) int {
	t.Helper()
	log, err := os.ReadFile(r.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), text)
}

func distinctOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
