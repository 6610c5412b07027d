package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Limits of a batch. A thousand events are one commit, which the database has to
// take in one piece while single events wait.
const (
	maxBatchLines = 1000
	maxBatchBytes = 8 << 20
	// maxLineProblems keeps the answer to a thousand bad lines from growing far
	// beyond the request.
	maxLineProblems = 20
)

// batchBody and batchResult are what answerBatch writes by hand.
type batchBody struct {
	Results []batchResult `json:"results" doc:"One for each line that is not blank, in their order"`
}

type batchResult struct {
	Status     int        `json:"status" doc:"What the event alone would have been answered with: 202, 200 for a duplicate, 4xx or 5xx"`
	ID         *string    `json:"id,omitempty"`
	Type       *string    `json:"type,omitempty"`
	Deliveries *int       `json:"deliveries,omitempty"`
	Duplicate  *bool      `json:"duplicate,omitempty"`
	Error      *errorBody `json:"error,omitempty" doc:"Why this event was not accepted"`
}

// batch is a batch on its way: what became of each line, and the submissions
// of those that can be accepted.
type batch struct {
	tenant          store.TenantRow
	maxPayloadBytes int
	traceparent     string // of the request
	submissions     []pipeline.Submission
	refusals        []error // of each line, nil for one that has a submission
}

func (a *api) acceptBatch(c *call) error {
	b := batch{tenant: c.tenant, maxPayloadBytes: a.MaxPayloadBytes}
	mediaType := mediaTypeOf(c.r.Header.Get("Content-Type"))
	if err := b.readHeaders(c, mediaType); err != nil {
		return err
	}
	body, err := a.readBody(c, maxBatchBytes)
	if err != nil {
		return err
	}
	if mediaType == mediaBatched {
		err = b.readCloudEvents(body)
	} else {
		err = b.readLines(body)
	}
	if err != nil {
		return err
	}
	var results []pipeline.Result
	if len(b.submissions) > 0 {
		results = a.Pipeline.AcceptAll(c.r.Context(), b.submissions)
	}
	if err := notNow(results); err != nil {
		return err
	}
	answerBatch(c, b.refusals, results)
	return nil
}

// notNow returns the error of a batch of which nothing was accepted for a reason
// that goes away. It becomes the answer to the request, so that a client which
// knows nothing of lines comes again after Retry-After.
func notNow(results []pipeline.Result) (err error) {
	for _, r := range results {
		if r.Err == nil {
			return nil
		}
		if answers[explain(r.Err).Code].retryAfter > 0 {
			err = r.Err
		}
	}
	return err
}

// readHeaders refuses what would hold for one event, and not for each of several.
func (b *batch) readHeaders(c *call, mediaType string) error {
	q := newQuery(c)
	h := c.r.Header
	for name := range h {
		switch {
		case name == headerIdempotencyKey:
			q.report(name, "is not a header of this request", "give each line its own idempotency_key")
		case strings.HasPrefix(name, prefixCloudEvents):
			q.report(name, "is not a header of this request", "binary mode holds one event: send it to POST /v1/events")
		}
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		q.problems = append(q.problems, posthaste.Problem{
			Field: "Content-Encoding", Message: "hides the lines", Hint: "send the batch as it is", Code: posthaste.CodeUnsupported,
		})
	}
	if mediaType != mediaBatched && isCloudEventType(mediaType) {
		q.problems = append(q.problems, posthaste.Problem{
			Field: "Content-Type", Message: "is not that of a batch", Hint: "send " + mediaBatched + " or application/x-ndjson", Code: posthaste.CodeUnsupported,
		})
	}
	slices.SortFunc(q.problems, func(a, b posthaste.Problem) int { return strings.Compare(a.Field, b.Field) })
	if trace := h["Traceparent"]; len(trace) == 1 && posthaste.IsTraceparent(trace[0]) {
		b.traceparent = trace[0]
	}
	return q.err()
}

// readLines splits the body into its lines. Blank ones are skipped and are not
// answered: most files end with one.
func (b *batch) readLines(body []byte) error {
	for line := range bytes.SplitSeq(body, []byte{'\n'}) {
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 {
			continue
		}
		if len(b.refusals) == maxBatchLines {
			return tooMany("lines")
		}
		b.take(b.readLine(line))
	}
	return nil
}

// readCloudEvents reads the batched content mode: an array of events in the
// structured form, each of which is delivered as such.
func (b *batch) readCloudEvents(body []byte) (err error) {
	if err := checkJSON("the body", body); err != nil {
		return err
	}
	array := body[skipSpace(body, 0):]
	if array[0] != '[' {
		return oneProblem("", "is "+kindOf(array)+", want an array", "send an array of CloudEvents, or one to POST /v1/events")
	}
	eachElement(array, func(_ int, element []byte) bool {
		if len(b.refusals) == maxBatchLines {
			err = tooMany("events")
			return false
		}
		b.take(b.readCloudEvent(element))
		return true
	})
	return err
}

func (b *batch) take(s pipeline.Submission, err error) {
	b.refusals = append(b.refusals, err)
	if err == nil {
		b.submissions = append(b.submissions, s)
	}
}

func tooMany(what string) error {
	return &posthaste.Error{
		Code: posthaste.CodeTooLarge, Message: fmt.Sprintf("the batch has more than %d %s", maxBatchLines, what), Hint: "send them in several batches; none was accepted",
	}
}

func (b *batch) readCloudEvent(element []byte) (pipeline.Submission, error) {
	s := submissionReader{}
	b.begin(&s)
	s.readStructured(element)
	s.Event.ContentType = mediaStructured
	s.Event.Payload = bytes.Clone(element)
	return s.Submission, b.end(&s)
}

func (b *batch) begin(s *submissionReader) {
	s.Tenant, s.Event.Source, s.Event.Traceparent = b.tenant, posthaste.SourceAPI, b.traceparent
}

// end adds to what is wrong with a line its size. An event that is too large
// and nothing else is answered as it would be alone.
func (b *batch) end(s *submissionReader) error {
	if len(s.Event.Headers) > 0 {
		s.endForward("headers")
	}
	if len(s.Event.Payload) > b.maxPayloadBytes {
		if len(s.problems) == 0 {
			return &posthaste.Error{
				Code: posthaste.CodeTooLarge, Message: fmt.Sprintf("the payload is larger than %d bytes", b.maxPayloadBytes),
				Hint: "send less, or a reference to what is large",
			}
		}
		s.problems = append(s.problems, posthaste.Problem{
			Field: "payload", Message: "is too large", Hint: fmt.Sprintf("%d bytes at most", b.maxPayloadBytes), Code: posthaste.CodeTooLarge,
		})
	}
	return posthaste.Invalid(s.problems[:min(len(s.problems), maxLineProblems)])
}

// answerBatch writes the results in the order of the lines.
func answerBatch(c *call, refusals []error, results []pipeline.Result) {
	out := make([]byte, 0, 128*len(refusals)+32)
	out = append(out, `{"results":[`...)
	next := 0
	for i, err := range refusals {
		if i > 0 {
			out = append(out, ',')
		}
		if err == nil {
			result := results[next]
			next++
			if err = result.Err; err == nil {
				out = appendAccepted(out, result.Receipt)
				continue
			}
		}
		problem := c.problem(inLine(err))
		raw, err := json.Marshal(problem)
		if err != nil {
			panic(fmt.Errorf("write a line's answer: %w", err)) // our own types: a bug
		}
		out = strconv.AppendInt(append(out, `{"status":`...), int64(problem.Status), 10)
		out = append(append(append(out, `,"error":`...), raw...), '}')
	}
	out = append(out, "]}\n"...)
	h := c.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(out))}
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(out)
}

func appendAccepted(out []byte, r pipeline.Receipt) []byte {
	out = strconv.AppendInt(append(out, `{"status":`...), int64(statusOf(r)), 10)
	out = append(out, ',')
	return append(appendReceipt(out, r), '}')
}

// inLine puts the name that a line has for endpoints in the place of the
// header's, which is what the pipeline knows.
func inLine(err error) error {
	e := explain(err)
	if !slices.ContainsFunc(e.Problems, func(p posthaste.Problem) bool { return p.Field == headerEndpoint }) {
		return err
	}
	line := *e
	line.Problems = slices.Clone(e.Problems)
	for i := range line.Problems {
		if line.Problems[i].Field == headerEndpoint {
			line.Problems[i].Field = "endpoints"
		}
	}
	return &line
}
