package relay

import "testing"

// A trace that is none would be sent to every receiver, whose tracing may refuse it.
func TestTraceOfARow(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for headers, want := range map[string]string{
		`{"Traceparent":"` + trace + `","X-A":"b"}`: trace, `{"traceparent":"nonsense","X-A":"b"}`: "", `{"traceparent":"` + trace + `\r\nX-B: c","X-A":"b"}`: "",
	} {
		got, gotTrace, problem := readHeaders([]byte(headers))
		if problem != nil || gotTrace != want || len(got) != 1 || got[0].Name != "X-A" {
			t.Errorf("%s: %v, %q, %v; want %q", headers, got, gotTrace, problem, want)
		}
	}
}
