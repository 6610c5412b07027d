package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// writer is the one goroutine that writes. SQLite has one writer at a time
// anyway; taking turns here rather than in the file's lock means that whatever
// waits shares the next transaction. At full load a batch of accepts and a
// batch of settlements go to disk with one fsync, and the pages that both touch
// are written once.
type writer struct {
	conn    *conn
	queue   chan *job
	closing chan struct{}
	stopped chan struct{}
	turned  chan struct{} // tells the checkpointer that the log has grown; holds one hint
	stop    stopper
}

// job is one call's share of a transaction. run may be called twice: when
// another job of the transaction fails, it is undone and run again, so it sets
// its results anew each time.
type job struct {
	run   func(*conn) error
	bare  bool // runs outside a transaction, alone
	late  bool // its caller's deadline has passed while it ran; guarded by the stopper
	state atomic.Int32
	err   error
	done  chan struct{}
}

// The states of a job: the caller may leave a waiting one, not a running one,
// which reads the caller's memory.
const (
	jobWaiting int32 = iota
	jobRunning
	jobLeft
)

// maxTurn bounds how many jobs share a transaction, so that one slow caller
// does not wait for any number of others.
const maxTurn = 16

func newWriter(c *conn) *writer {
	w := &writer{
		conn: c, queue: make(chan *job, maxTurn),
		closing: make(chan struct{}), stopped: make(chan struct{}), turned: make(chan struct{}, 1),
	}
	w.stop.arm(c)
	go w.loop()
	return w
}

// close stops the goroutine when the jobs that wait are done. No job may be
// sent any more.
func (w *writer) close() error {
	close(w.closing)
	<-w.stopped
	return w.conn.Close()
}

// do runs f in a transaction that is on disk when do returns nil. When f
// fails, or ctx ends first, nothing of it is kept; when the commit fails, or ctx
// ends during it, that is not known.
func (w *writer) do(ctx context.Context, f func(*conn) error) error {
	return w.send(ctx, &job{run: f})
}

// doBare runs f on the writing connection, outside any transaction.
func (w *writer) doBare(ctx context.Context, f func(*conn) error) error {
	return w.send(ctx, &job{run: f, bare: true})
}

func (w *writer) send(ctx context.Context, j *job) error {
	j.done = make(chan struct{})
	select {
	case w.queue <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		if j.state.CompareAndSwap(jobWaiting, jobLeft) {
			return ctx.Err()
		}
		w.stop.interrupt(j)
		<-j.done // soon
		return j.err
	}
}

// partnerWait is how long a lone job waits for another one when work is dense.
// Full load is two callers, one that accepts and one that settles, each of
// which comes back some ten microseconds after its turn: without the wait they
// alternate for ever and never share a transaction. Sharing saves 10 % of the
// processor at batches of 64.
const partnerWait = 100 * time.Microsecond

func (w *writer) loop() {
	defer close(w.stopped)
	jobs := make([]*job, 0, maxTurn)
	partner := time.NewTimer(0)
	defer partner.Stop()
	for {
		// One that has waited through the last turn means that work is dense. One
		// that comes to an idle writer starts at once.
		dense := len(w.queue) == 1
		select {
		case j := <-w.queue:
			jobs = append(jobs[:0], j)
		case <-w.closing:
			return
		}
		if dense {
			partner.Reset(partnerWait)
			select {
			case j := <-w.queue:
				jobs = append(jobs, j)
			case <-partner.C:
			}
		}
		for len(jobs) < maxTurn && len(w.queue) > 0 {
			jobs = append(jobs, <-w.queue)
		}
		w.turn(jobs)
		select {
		case w.turned <- struct{}{}:
		default:
		}
	}
}

// turn runs jobs and answers each of them.
func (w *writer) turn(jobs []*job) {
	for len(jobs) > 0 {
		n := 1
		if jobs[0].bare {
			w.alone(jobs[0])
		} else {
			for n < len(jobs) && !jobs[n].bare {
				n++
			}
			n = w.together(jobs[:n])
		}
		jobs = jobs[n:]
	}
}

// alone runs a job outside any transaction.
func (w *writer) alone(j *job) {
	if j.take() {
		j.answer(w.interruptible(j))
	}
}

// together runs jobs in one transaction, in their order, and returns how many
// it answered. A job that fails after it has changed something spoils the
// transaction: it is undone, the jobs before it are run again without it, and
// those after it are left for the next transaction.
func (w *writer) together(jobs []*job) int {
	if err := w.begin(); err != nil {
		for _, j := range jobs {
			if j.take() {
				j.answer(err)
			}
		}
		return len(jobs)
	}
	ran := make([]*job, 0, len(jobs))
	for i, j := range jobs {
		if !j.take() {
			continue
		}
		w.conn.wrote = false
		err := w.interruptible(j)
		switch {
		case err == nil:
			ran = append(ran, j)
		case !w.conn.wrote && !w.conn.AutocommitEnabled():
			j.answer(err)
		default:
			w.conn.rollback()
			w.again(ran)
			j.answer(err)
			return i + 1
		}
	}
	w.commit(ran)
	return len(jobs)
}

// again runs jobs that an innocent rollback has undone, each in a transaction
// of its own: this is rare, and there they can't spoil each other.
func (w *writer) again(jobs []*job) {
	for _, j := range jobs {
		err := w.begin()
		if err == nil {
			err = w.interruptible(j)
		}
		if err != nil {
			w.conn.rollback()
			j.answer(err)
			continue
		}
		w.commit([]*job{j})
	}
}

const (
	sqlBegin  = `BEGIN IMMEDIATE`
	sqlCommit = `COMMIT`
)

func (w *writer) begin() error {
	_, err := w.conn.exec(sqlBegin)
	return err
}

func (w *writer) commit(jobs []*job) {
	_, err := w.conn.exec(sqlCommit)
	if err != nil {
		w.conn.rollback()
	}
	for _, j := range jobs {
		j.answer(err)
	}
}

// interruptible runs a job's function so that its caller can stop it.
func (w *writer) interruptible(j *job) error {
	w.stop.begin(j)
	err := j.run(w.conn)
	w.stop.end(w.conn)
	return err
}

// stopper interrupts the job that runs when its caller, who waits for it, says
// that its deadline has passed. SetInterrupt for each job would start a goroutine
// each, wait for it twice, behind all others that are ready to run, and look
// through all statements: 3 µs an event at batches of 18.
type stopper struct {
	mu      sync.Mutex
	running *job
	signal  chan struct{} // the connection watches it
	sent    bool          // signal is closed
}

// arm has the connection watch a new signal.
func (s *stopper) arm(c *conn) {
	s.signal, s.sent = make(chan struct{}), false
	c.SetInterrupt(s.signal)
}

func (s *stopper) begin(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = j
	s.fire()
}

func (s *stopper) end(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
	if s.sent {
		s.arm(c)
	}
}

// interrupt stops the job, now or when it begins or runs again.
func (s *stopper) interrupt(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.late = true
	s.fire()
}

func (s *stopper) fire() {
	if s.running != nil && s.running.late && !s.sent {
		close(s.signal)
		s.sent = true
	}
}

func (j *job) take() bool { return j.state.CompareAndSwap(jobWaiting, jobRunning) }

func (j *job) answer(err error) {
	j.err = err
	close(j.done)
}
