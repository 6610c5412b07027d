package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// Send and SendBatch try this often after the first time, and wait at most this
// long each time: half a minute of patience in all, for a restart or a moment's overload.
// Longer outages are for the caller, who knows what else there is to do.
const (
	maxRepeats = 5
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
)

// doRepeatedly is do for a request that may be repeated: it tries a few times
// more when the server is overloaded, away, or did not answer.
func (c *Client) doRepeatedly(ctx context.Context, q call) (answer, error) {
	res, err := c.do(ctx, q)
	for n := 0; err != nil; n++ {
		wait, again := pause(err, n)
		if !again || sleep(ctx, wait) != nil {
			break
		}
		res, err = c.do(ctx, q)
	}
	return res, err
}

// pause says whether a failed request is worth another try after n repeats,
// and how long to wait first. The server's Retry-After wins over our own step;
// one that is longer than we have patience for ends it, and so does a request
// that ran into its own timeout.
func pause(err error, n int) (time.Duration, bool) {
	if n >= maxRepeats || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return 0, false
	}
	step := min(firstPause<<n, maxPause)
	// Half of the step is random, so that clients that failed together do not
	// come back together.
	step = step/2 + rand.N(step/2+1)
	e, answered := errors.AsType[*Error](err)
	if !answered {
		return step, true // no answer came: the outcome is unknown
	}
	if e.Status != http.StatusServiceUnavailable || e.RetryAfter > maxPause {
		return 0, false
	}
	return max(step, e.RetryAfter), true
}

// sleep waits, or returns early with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
