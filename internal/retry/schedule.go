package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// MaxRetryAfter is the most that a receiver's Retry-After counts for. More than
// an hour would let a receiver's mistake use up the deadline of a run.
const MaxRetryAfter = time.Hour

// Next returns how long to wait after a transient failure, and false when the
// schedule has no further step: the delivery is dead. failures counts the
// transient failures of the present run with this one, from 1; lost attempts are
// not among them. random is uniform in [0, 1) and spreads the step by ± the
// policy's jitter. retryAfter is what [RetryAfter] made of the response, 0 for
// nothing: the wait is the larger of the spread step and retryAfter, which
// counts for at most [MaxRetryAfter].
func Next(policy posthaste.RetryPolicy, failures int, random float64, retryAfter time.Duration) (time.Duration, bool) {
	step := max(failures, 1) - 1
	if step >= len(policy.Schedule) {
		return 0, false
	}
	wait := spread(time.Duration(policy.Schedule[step]), policy.Jitter, random)
	return max(wait, min(retryAfter, MaxRetryAfter)), true
}

// Longest returns the longest wait that [Next] gives under the policy, whatever the
// receiver asks for.
func Longest(policy posthaste.RetryPolicy) time.Duration {
	longest := MaxRetryAfter
	for _, step := range policy.Schedule {
		longest = max(longest, spread(time.Duration(step), policy.Jitter, 1))
	}
	return longest
}

// spread never trusts its input: a wait that overflowed would be negative, and a
// retry would follow at once, for ever.
func spread(step time.Duration, jitter, random float64) time.Duration {
	if !(jitter > 0) { // also NaN
		return max(0, step)
	}
	factor := 1 + min(jitter, 1)*(2*min(max(random, 0), 1)-1)
	wait := float64(max(0, step)) * factor
	if wait >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(wait)
}

// RetryAfter returns how long a response asks to wait: the value of its header
// Retry-After, on 429 and 503 only, where RFC 9110 gives it this meaning for a
// request like ours. 0 means that it asks for nothing.
func RetryAfter(status int, value string, now time.Time) time.Duration {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return 0
	}
	wait, _ := ParseRetryAfter(value, now)
	return wait
}

// ParseRetryAfter reads a value of Retry-After (RFC 9110, section 10.2.3):
// whole seconds, or an HTTP date in any of its three forms. It returns false for
// anything else, and for what is not ahead of now: negative numbers, fractions,
// numbers too large for a duration, dates that have passed.
func ParseRetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, false
	}
	if value[0] >= '0' && value[0] <= '9' {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds == 0 || seconds > int64(math.MaxInt64/time.Second) {
			return 0, false
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	wait := date.Sub(now) // saturates
	return max(0, wait), wait > 0
}

// Waits after an attempt that failed for lack of something on this server.
const (
	MinLocalWait = time.Second
	MaxLocalWait = time.Minute
)

// ForLocal returns how long a delivery waits after an attempt that failed for lack of
// something on this server, which has lasted for the given time: a quarter of that,
// within [MinLocalWait] and [MaxLocalWait], and up to a fifth more. random is from 0 to 1.
func ForLocal(lasted time.Duration, random float64) time.Duration {
	wait := min(max(lasted/4, MinLocalWait), MaxLocalWait)
	return wait + time.Duration(float64(wait)*0.2*min(max(random, 0), 1))
}
