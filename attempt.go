package posthaste

import "time"

// Outcome is how one attempt ended.
type Outcome int8

// The outcomes. Their numbers are stored; never renumber.
const (
	OutcomeDelivered Outcome = 1 // the receiver answered 2xx
	OutcomeTransient Outcome = 2 // worth another try
	OutcomePermanent Outcome = 3 // no retry can help: dead at once
	OutcomeLost      Outcome = 4 // the worker vanished; the request may have been sent
)

var outcomeNames = map[Outcome]string{
	OutcomeDelivered: "delivered", OutcomeTransient: "transient",
	OutcomePermanent: "permanent", OutcomeLost: "lost",
}

// String returns the word that the API shows, or "" for no outcome yet.
func (o Outcome) String() string { return outcomeNames[o] }

// Cause says at which step an attempt failed.
type Cause int8

// The causes, in the order of an attempt's steps. Their numbers are stored; never renumber.
const (
	CauseNone           Cause = 0
	CauseDNS            Cause = 1
	CauseBlockedAddress Cause = 2
	CauseRefused        Cause = 3
	CauseConnectTimeout Cause = 4
	CauseTLS            Cause = 5
	CauseWrite          Cause = 6
	CauseHeaderTimeout  Cause = 7
	CauseBodyTimeout    Cause = 8
	CauseTooLarge       Cause = 9
	CauseBadResponse    Cause = 10
	CauseStatus         Cause = 11
	CauseHandler        Cause = 12
	CauseLost           Cause = 13
	CauseLocal          Cause = 14 // this server lacked something, such as file descriptors
)

var causeNames = map[Cause]string{
	CauseDNS: "dns", CauseBlockedAddress: "blocked_address", CauseRefused: "refused",
	CauseConnectTimeout: "connect_timeout", CauseTLS: "tls", CauseWrite: "write",
	CauseHeaderTimeout: "header_timeout", CauseBodyTimeout: "body_timeout",
	CauseTooLarge: "too_large", CauseBadResponse: "bad_response", CauseStatus: "status",
	CauseHandler: "handler", CauseLost: "lost", CauseLocal: "local",
}

// String returns the word that the API shows, or "" where nothing failed.
func (c Cause) String() string { return causeNames[c] }

// Fault says where the cause of a failed attempt lies.
type Fault int8

// The faults.
const (
	FaultNone     Fault = iota
	FaultReceiver       // the receiver answered, or did not answer as HTTP and TLS ask for
	FaultNetwork        // the receiver was not reached: its name, its address, or the way to it
	FaultPolicy         // this server's settings refuse the receiver's address
	FaultLocal          // this server: the receiver has nothing to do with it
)

// faults has every cause. A cause of FaultLocal counts neither against the endpoint
// (its circuit breaker, its failures) nor against the delivery's retry schedule.
var faults = map[Cause]Fault{
	CauseNone: FaultNone,
	CauseDNS:  FaultNetwork, CauseRefused: FaultNetwork, CauseConnectTimeout: FaultNetwork, CauseWrite: FaultNetwork,
	CauseBlockedAddress: FaultPolicy,
	CauseTLS:            FaultReceiver, CauseHeaderTimeout: FaultReceiver, CauseBodyTimeout: FaultReceiver, CauseTooLarge: FaultReceiver,
	CauseBadResponse: FaultReceiver, CauseStatus: FaultReceiver, CauseHandler: FaultReceiver,
	CauseLost: FaultLocal, CauseLocal: FaultLocal,
}

// Fault returns where a failure with this cause lies.
func (c Cause) Fault() Fault { return faults[c] }

// Attempt is the record of one try of a delivery. Records are append-only, with
// one exception: the late result of a lost attempt completes its own record.
type Attempt struct {
	Number          int // 1, 2, 3 … per delivery, on through replays
	StartedAt       time.Time
	Timings         Timings
	Outcome         Outcome
	Late            bool // the result arrived after the attempt had been recorded as lost
	SentTwice       bool // the request was sent again, on a new connection, after a reused one broke before an answer
	Cause           Cause
	StatusCode      int    // 0 if no response came
	Error           string // in words; "" for a 2xx
	EndpointVersion int    // the endpoint's definition that was used; 0 if unknown (lost)
	Replica         string // name of the replica that made it
	ResponseHeaders []Header
	ResponseBody    []byte // the first 16 KiB
}

// Timings are the parts of an attempt's duration. A part that did not happen
// (a reused connection has no DNS, Connect or TLS) is zero.
type Timings struct {
	DNS, Connect, TLS, FirstByte, Total time.Duration
}

// Header is one header field as it was sent or received.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// MaxResponseBodyBytes and MaxResponseHeaders cap what is kept of a response.
const (
	MaxResponseBodyBytes = 16 << 10
	MaxResponseHeaders   = 64
)
