package meta_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta"
)

func graphBody(code, subcode int) string {
	return fmt.Sprintf(`{"error":{"message":"m","type":"OAuthException","code":%d,"error_subcode":%d,"fbtrace_id":"T"}}`, code, subcode)
}

func TestAdvise(t *testing.T) {
	for class, codes := range map[meta.Class]string{
		meta.Reconnect:  "190/458 190/459 190/460 190/463 190/464 190/467 190/492 190/0 190/77 102/0 0/0",
		meta.Permission: "3/0 10/0 10/99 200/0 230/0 299/0 2/2018344",
		meta.Terminal: "100/0 100/33 100/2018001 100/2018047 100/2018164 2500/0 506/0 1609005/0 131008/0 131009/0 131051/0 33/0 " +
			"10/2018278 10/2018065 10/2534022 10/2018108 551/0 551/1545041 200/1545041 10903/0 131047/0 131026/0",
		meta.Policy: "368/0 131031/0 131048/0",
		meta.RateLimited: "4/0 17/0 32/0 341/0 613/0 80000/0 80001/0 80002/0 80003/0 80004/0 80005/0 80006/0 80007/0 80008/0 80009/0 80014/0 " +
			"130429/0 131056/0 133016/0",
		meta.Transient: "1/0 2/0 2/1 1200/0 131000/0 131016/0 424242/0 300/0 199/0",
	} {
		for _, pair := range strings.Fields(codes) {
			var code, subcode int
			if _, err := fmt.Sscanf(pair, "%d/%d", &code, &subcode); err != nil {
				t.Fatal(err)
			}
			for _, status := range []int{200, 400, 401, 403, 404, 429, 500, 503} { // the status changes nothing
				err := fmt.Errorf("send the reply: %w", meta.ParseError(status, nil, []byte(graphBody(code, subcode))))
				if got := meta.Classify(err); got != class {
					t.Errorf("%s with status %d is %q, want %q", pair, status, got, class)
				}
			}
		}
	}
}

func TestAdviseDetails(t *testing.T) {
	usage := http.Header{"X-Business-Use-Case-Usage": {`{"1":[{"type":"messenger","call_count":100,"estimated_time_to_regain_access":19},{"estimated_time_to_regain_access":"3"}],"2":[{}],"3":7}`}}
	dated := http.Header{"Retry-After": {"Tue, 14 Nov 2023 22:14:20 GMT"}, "Date": {"Tue, 14 Nov 2023 22:13:20 GMT"}}
	graph := func(status int, header http.Header, body string) error {
		return meta.ParseError(status, header, []byte(body))
	}
	for name, c := range map[string]struct {
		err  error
		want meta.Advice
	}{
		"none":                   {nil, meta.Advice{}},
		"rate limit":             {graph(400, nil, graphBody(4, 0)), meta.Advice{Class: meta.RateLimited}},
		"rate limit with usage":  {graph(400, usage, graphBody(80006, 0)), meta.Advice{Class: meta.RateLimited, Wait: 19 * time.Minute}},
		"retry after":            {graph(400, http.Header{"Retry-After": {"7"}}, graphBody(4, 0)), meta.Advice{Class: meta.RateLimited, Wait: 7 * time.Second}},
		"retry after a date":     {graph(503, dated, graphBody(2, 0)), meta.Advice{Class: meta.Transient, Wait: time.Minute}},
		"retry after never":      {graph(400, http.Header{"Retry-After": {"999999999999"}}, graphBody(4, 0)), meta.Advice{Class: meta.RateLimited, Wait: 24 * time.Hour}},
		"retry after before":     {graph(400, http.Header{"Retry-After": {"-7"}}, graphBody(4, 0)), meta.Advice{Class: meta.RateLimited}},
		"usage is nonsense":      {graph(400, http.Header{"X-Business-Use-Case-Usage": {"[[{"}}, graphBody(4, 0)), meta.Advice{Class: meta.RateLimited}},
		"policy":                 {graph(400, nil, graphBody(368, 0)), meta.Advice{Class: meta.Policy, Wait: 4 * time.Hour}},
		"terminal":               {graph(500, nil, graphBody(100, 0)), meta.Advice{Class: meta.Terminal, MaxAttempts: 1}},
		"may hide a bad request": {graph(500, nil, graphBody(1, 0)), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
		"unknown code":           {graph(400, nil, graphBody(424242, 0)), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
		"unknown code, 5xx":      {graph(500, nil, graphBody(424242, 0)), meta.Advice{Class: meta.Transient}},
		"may pass, says Meta":    {graph(400, nil, `{"error":{"code":424242,"is_transient":true}}`), meta.Advice{Class: meta.Transient}},
		"terminal, but may pass": {graph(400, nil, `{"error":{"code":100,"is_transient":true}}`), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
		"terminal for sure":      {graph(400, nil, `{"error":{"code":100,"error_subcode":33,"is_transient":true}}`), meta.Advice{Class: meta.Terminal, MaxAttempts: 1}},
		"codes as text":          {graph(400, nil, `{"error":{"code":"190","error_subcode":"463"}}`), meta.Advice{Class: meta.Reconnect}},
		"token without a code":   {graph(400, nil, `{"error":{"type":"OAuthException","message":"m"}}`), meta.Advice{Class: meta.Reconnect}},
		"a proxy's page":         {graph(502, nil, "<html>"), meta.Advice{Class: meta.Transient}},
		"a proxy's limit":        {graph(429, http.Header{"Retry-After": {"2"}}, ""), meta.Advice{Class: meta.RateLimited, Wait: 2 * time.Second}},
		"a proxy's refusal":      {graph(403, nil, "no"), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
		"an odd error":           {graph(400, nil, `{"error":"x"}`), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
		"an odd body":            {graph(400, nil, ` [1] `), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
		"network":                {&url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, meta.Advice{Class: meta.Transient}},
		"timeout":                {fmt.Errorf("send: %w", context.DeadlineExceeded), meta.Advice{Class: meta.Transient}},
		"cut short":              {fmt.Errorf("read the answer: %w", io.ErrUnexpectedEOF), meta.Advice{Class: meta.Transient}},
		"anything else":          {errors.New("x"), meta.Advice{Class: meta.Transient, MaxAttempts: 3}},
	} {
		if got := meta.Advise(c.err); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestGraphErrorSaysWhatIsNeeded(t *testing.T) {
	body := `{"error":{"message":"This message is sent outside of allowed window.","type":"OAuthException","code":10,"error_subcode":2018278,` +
		`"error_user_title":"Too late","error_user_msg":"The window is closed","fbtrace_id":"AbC"}}`
	err := meta.ParseError(400, nil, []byte(body))
	const want = "graph api: This message is sent outside of allowed window., code 10, subcode 2018278, type OAuthException, status 400, fbtrace_id AbC"
	if err.Error() != want || err.UserTitle != "Too late" || err.UserMessage != "The window is closed" {
		t.Errorf("%q, %+v", err.Error(), err)
	}
	if got := meta.ParseError(502, nil, []byte("<html>")).Error(); got != "graph api: status 502 without an error that could be read" {
		t.Errorf("%q", got)
	}
	if got := (&meta.GraphError{HasCode: true}).Error(); got != "graph api: an error without a message, code 0" {
		t.Errorf("%q", got)
	}
}

func FuzzParseError(f *testing.F) {
	f.Add(400, graphBody(10, 2018278), `{"1":[{"estimated_time_to_regain_access":19}]}`, "7")
	f.Add(502, "<html>", "[", "Tue, 14 Nov 2023 22:14:20 GMT")
	f.Fuzz(func(t *testing.T, status int, body, usage, after string) {
		header := http.Header{"X-Business-Use-Case-Usage": {usage}, "Retry-After": {after}, "Date": {"Tue, 14 Nov 2023 22:13:20 GMT"}}
		err := meta.ParseError(status, header, []byte(body))
		advice := meta.Advise(err)
		if advice.Class == "" || advice.Wait < 0 || advice.Wait > 24*time.Hour || err.Error() == "" {
			t.Errorf("%+v of %+v", advice, err)
		}
	})
}
