package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pattern says how a receiver answers: all requests alike, or some of them as
// failures and the others with 200. It keeps nothing between requests: the number
// of the attempt comes with each.
//
//nolint:lll // one flag a line
type pattern struct {
	Status     int           `placeholder:"CODE" help:"Status to answer with. Default: 200; for the failures of --fail-first and --fail-share 503."`
	Delay      time.Duration `placeholder:"DURATION" help:"Time to wait before each answer. Default: none."`
	Hang       bool          `help:"Never answer, and keep the connection open."`
	Close      bool          `help:"Close the connection without an answer."`
	RetryAfter string        `placeholder:"SECONDS|DATE" help:"Header Retry-After of failures. Default: none."`
	FailFirst  int           `placeholder:"N" help:"Fail the first N attempts of each delivery, by their header posthaste-attempt; the others get 200."`
	FailShare  float64       `placeholder:"SHARE" help:"Fail this share of all requests, such as 0.3, by chance; the others get 200."`
}

// isSelective reports whether some requests fail and others do not.
func (p pattern) isSelective() bool { return p.FailFirst > 0 || p.FailShare > 0 }

// failure is the status of those that fail: of all of them, where nothing is said
// of some, and then it may be a success as well.
func (p pattern) failure() int {
	switch {
	case p.Status != 0:
		return p.Status
	case p.isSelective():
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (p pattern) check() error {
	var wrong []error
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if status := p.failure(); status < 200 || status > 599 {
		complain("--status is %d; want a final HTTP status, 200 to 599", status)
	}
	switch {
	case p.Hang && p.Close:
		complain("--hang and --close exclude each other")
	case (p.Hang || p.Close) && (p.Status != 0 || p.RetryAfter != ""):
		complain("--status and --retry-after are of an answer, and with --hang or --close there is none")
	case p.isSelective() && p.Status != 0 && p.Status < 300:
		complain("--status is %d, which is no failure; with --fail-first and --fail-share it is that of the failures", p.Status)
	case p.RetryAfter != "" && p.failure() < 300:
		complain("--retry-after is of failures; give a --status, such as 503")
	}
	if p.Delay < 0 {
		complain("--delay is %s; want a duration above zero, such as 2s", p.Delay)
	}
	if p.FailFirst < 0 {
		complain("--fail-first is %d; want a number of attempts", p.FailFirst)
	}
	if !(p.FailShare >= 0 && p.FailShare <= 1) { // so that NaN is wrong too
		complain("--fail-share is %v; want a share from 0 to 1", p.FailShare)
	}
	if p.RetryAfter != "" {
		_, notSeconds := strconv.ParseUint(p.RetryAfter, 10, 31)
		if _, notDate := http.ParseTime(p.RetryAfter); notSeconds != nil && notDate != nil {
			complain("--retry-after is %q; want seconds, or a date such as %q", p.RetryAfter, http.TimeFormat)
		}
	}
	return errors.Join(wrong...)
}

// String says what the pattern does, to be read after an address.
func (p pattern) String() string {
	what := "answering " + strconv.Itoa(p.failure())
	switch {
	case p.Hang:
		what = "never answering"
	case p.Close:
		what = "closing the connection"
	}
	var some []string
	if p.FailFirst > 0 {
		some = append(some, fmt.Sprintf("attempts up to number %d", p.FailFirst))
	}
	if p.FailShare > 0 {
		some = append(some, fmt.Sprintf("%g%% of all", 100*p.FailShare))
	}
	if len(some) > 0 {
		what += " to " + strings.Join(some, " and ") + ", 200 to the others"
	}
	if p.Delay > 0 {
		what += ", after " + p.Delay.String()
	}
	return what
}

// answer is what one request gets.
type answer struct {
	reply      string // "answered", "hung", "closed"
	status     int    // 0 unless answered
	retryAfter string
	delay      time.Duration
}

// answer decides on one request. draw is by chance, in [0, 1).
func (p pattern) answer(attempt int, draw float64) answer {
	a := answer{reply: "answered", status: http.StatusOK, delay: p.Delay}
	if p.isSelective() && attempt > p.FailFirst && draw >= p.FailShare {
		return a
	}
	switch {
	case p.Hang:
		return answer{reply: "hung"}
	case p.Close:
		return answer{reply: "closed", delay: p.Delay}
	}
	a.status, a.retryAfter = p.failure(), p.RetryAfter
	return a
}

// write gives the answer. The body of the request has been read, so that its
// context ends when the client leaves.
func (a answer) write(w http.ResponseWriter, r *http.Request) {
	if a.reply == "hung" {
		<-r.Context().Done()
		return
	}
	if a.delay > 0 {
		timer := time.NewTimer(a.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if a.reply == "closed" {
		panic(http.ErrAbortHandler) // net/http closes the connection, and logs nothing
	}
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	w.WriteHeader(a.status)
}
