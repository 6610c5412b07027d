package posthaste

import "time"

// State is where a delivery stands. There is no fourth state.
type State int8

// The states. Their numbers are stored; never renumber.
const (
	StatePending   State = 0
	StateDelivered State = 1
	StateDead      State = 2
)

// String returns the word that the API shows. A pending delivery that a replica
// has leased is shown as "delivering" instead; see [Delivery.Status].
func (s State) String() string {
	switch s {
	case StatePending:
		return "pending"
	case StateDelivered:
		return "delivered"
	case StateDead:
		return "dead"
	}
	return ""
}

// Reason says why a delivery is dead.
type Reason int8

// The reasons. Their numbers are stored; never renumber.
const (
	ReasonNone            Reason = 0
	ReasonPermanent       Reason = 1 // the receiver's answer was permanent
	ReasonExhausted       Reason = 2 // the schedule has no further step
	ReasonExpired         Reason = 3 // the run's deadline passed
	ReasonEndpointDeleted Reason = 4
	ReasonSkipped         Reason = 5 // an operator skipped it
	ReasonGone            Reason = 6 // 410: the endpoint was disabled too
)

var reasonNames = map[Reason]string{
	ReasonPermanent: "permanent failure", ReasonExhausted: "retries exhausted", ReasonExpired: "expired",
	ReasonEndpointDeleted: "endpoint deleted", ReasonSkipped: "skipped", ReasonGone: "endpoint gone",
}

// String returns the words that the API shows, or "" for a delivery that is not dead.
func (r Reason) String() string { return reasonNames[r] }

// Delivery is one event at one endpoint.
type Delivery struct {
	ID            ID
	EndpointID    ID
	Type          string // the event's
	State         State
	Leased        bool // a replica owns it at this moment
	Attempts      int  // the highest attempt number recorded
	Failures      int  // transient failures of the present run: the place in the schedule
	RunAt         time.Time
	ExpiresAt     time.Time
	NextAttemptAt time.Time // zero unless it waits
	FinishedAt    time.Time // zero unless terminal
	Reason        Reason
	LastOutcome   Outcome // zero before the first attempt
}

// EventID returns the id of the event it delivers.
func (d Delivery) EventID() ID { return d.ID.Event() }

// Status returns the word that the API shows.
func (d Delivery) Status() string {
	if d.State == StatePending && d.Leased {
		return "delivering"
	}
	return d.State.String()
}
