// Package retry decides what follows an attempt: whether its result is final,
// and when the next one is due. All of it is pure: no clock, no randomness, no
// storage; the caller brings them.
package retry

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// StatusSet is a set of HTTP statuses, 0 to 999. The zero value is empty.
// It is a bitmap rather than a map: every attempt asks it, and it compares with ==.
type StatusSet [16]uint64

// Has reports whether the status is in the set.
func (s StatusSet) Has(status int) bool {
	return 0 <= status && status < len(s)*64 && s[status/64]>>(status%64)&1 == 1
}

// ParseStatuses reads the transient list of an endpoint: each entry a status
// from 300 to 599 or a class, "3xx", "4xx" or "5xx". A 2xx is delivered and a
// 410 is permanent whatever the list says, so to name them is an error; "4xx"
// means all others of its class. The error names the first bad entry.
func ParseStatuses(list []string) (StatusSet, error) {
	var set StatusSet
	for i, entry := range list {
		first, last, err := parseEntry(entry)
		if err != nil {
			return StatusSet{}, fmt.Errorf("read transient status %d, %q: %w", i+1, entry, err)
		}
		for status := first; status <= last; status++ {
			set[status/64] |= 1 << (status % 64)
		}
	}
	set[statusGone/64] &^= 1 << (statusGone % 64)
	return set, nil
}

const statusGone = 410

func parseEntry(entry string) (first, last int, err error) {
	if class, isClass := strings.CutSuffix(entry, "xx"); isClass {
		switch class {
		case "3", "4", "5":
			first = int(class[0]-'0') * 100
			return first, first + 99, nil
		}
		return 0, 0, fmt.Errorf(`a class is "3xx", "4xx" or "5xx"`)
	}
	status, err := strconv.Atoi(entry)
	switch {
	case err != nil || len(entry) != 3 || status < 300 || status > 599:
		return 0, 0, fmt.Errorf(`want a number from 300 to 599, "3xx", "4xx" or "5xx"`)
	case status == statusGone:
		return 0, 0, fmt.Errorf("410 is always permanent")
	}
	return status, status, nil
}

// Classify says how an attempt ended. status is 0 if no response came; cause
// says at which step it failed. In order:
//
//   - 410 is permanent, even when its body did not arrive: the receiver has said
//     that it is gone. The caller disables the endpoint.
//   - What fails for lack of something on this server (cause local) is transient. It
//     does not use up the schedule: see [ForLocal].
//   - A failure at any step but the status is transient, even after a 2xx whose
//     body did not arrive in time: the receiver may not have finished.
//     blocked_address is among them, so that a corrected DNS entry or
//     --allow-networks helps the deliveries that wait.
//   - too_large is judged by the status where there is one. Without one (the
//     headers were too large) it is transient.
//   - 2xx is delivered.
//   - What is no final HTTP status (below 200, above 599) is transient, like any
//     other response that makes no sense.
//   - What the endpoint lists is transient, all else permanent.
//
// An attempt whose worker vanished (cause lost) is lost. How the error of an
// in-process handler counts is for the handler to say; without more it is transient.
func Classify(transient StatusSet, status int, cause posthaste.Cause) posthaste.Outcome {
	switch {
	case cause == posthaste.CauseLost:
		return posthaste.OutcomeLost
	case status == statusGone:
		return posthaste.OutcomePermanent
	case !judgedByStatus(cause) || status < 200 || status > 599:
		return posthaste.OutcomeTransient
	case status <= 299:
		return posthaste.OutcomeDelivered
	case transient.Has(status):
		return posthaste.OutcomeTransient
	}
	return posthaste.OutcomePermanent
}

func judgedByStatus(cause posthaste.Cause) bool {
	return cause == posthaste.CauseNone || cause == posthaste.CauseStatus || cause == posthaste.CauseTooLarge
}
