package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestEveryCodeHasItsAnswer(t *testing.T) {
	want := map[posthaste.Code]int{
		"unreadable": 400, "unauthorized": 401, "forbidden": 403, "not_found": 404, "method_not_allowed": 405, "idempotency_mismatch": 409,
		"not_dead": 409, "not_pending": 409, "endpoint_deleted": 409, "conflict": 409, "expired_event": 410, "precondition_failed": 412, "too_large": 413,
		"invalid": 422, "unsupported": 422, "internal": 500, "overloaded": 503, "unavailable": 503,
	}
	for code, status := range want {
		a, w := answered(&posthaste.Error{Code: code, Message: "m", Hint: "h", Err: errors.New("inner words")})
		if w.Code != status || a.Status != status || a.Code != code || a.Title == "" || a.Detail != "m" || a.Hint != "h" || a.RequestID != "req_1" {
			t.Errorf("%s: %d %+v", code, w.Code, a)
		}
		if has := w.Header().Get("Retry-After") != ""; has != (status == 503) {
			t.Errorf("%s: Retry-After %q", code, w.Header().Get("Retry-After"))
		}
		if has := w.Header().Get("WWW-Authenticate") != ""; has != (status == 401) {
			t.Errorf("%s: WWW-Authenticate %q", code, w.Header().Get("WWW-Authenticate"))
		}
		if strings.Contains(w.Body.String(), "inner words") {
			t.Errorf("%s: tells the cause: %s", code, w.Body)
		}
	}
	if len(answers) != len(want) {
		t.Errorf("%d codes have an answer, want %d", len(answers), len(want))
	}
}

func TestErrorsOfOthers(t *testing.T) {
	for _, c := range []struct {
		err  error
		want posthaste.Code
	}{
		{store.ErrNotFound, "not_found"},
		{fmt.Errorf("read: %w", store.ErrNotFound), "not_found"},
		{store.ErrConflict, "conflict"},
		{store.ErrTaken, "conflict"},
		{fmt.Errorf("dial 10.0.0.1: %w", store.ErrUnavailable), "unavailable"},
		{store.ErrFenced, "unavailable"},
		{context.DeadlineExceeded, "unavailable"},
		{errors.New("open /etc/shadow: no"), "internal"},
		{fmt.Errorf("outer: %w", &posthaste.Error{Code: posthaste.CodeNotDead, Message: "m"}), "not_dead"},
		{&posthaste.Error{Code: "unheard_of", Message: "m"}, "unheard_of"},
	} {
		a, w := answered(c.err)
		if a.Code != c.want || c.want == "unheard_of" && w.Code != 500 {
			t.Errorf("%v: %d %+v, want code %s", c.err, w.Code, a, c.want)
		}
		for _, inner := range []string{"10.0.0.1", "shadow"} {
			if strings.Contains(w.Body.String(), inner) {
				t.Errorf("%v: tells %s", c.err, w.Body)
			}
		}
	}
}

func answered(err error) (errorBody, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	(&call{ResponseWriter: w, r: httptest.NewRequest("GET", "/", nil), id: "req_1"}).refuse(err)
	var p errorBody
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		panic(err)
	}
	return p, w
}

// panicking serves one route that panics, before or after it has answered.
func panicking(t *testing.T, handle func(*call) error) http.Handler {
	t.Helper()
	seconds, err := newRequestSeconds(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	a := &api{Config: Config{Log: slog.New(slog.DiscardHandler)}, seconds: seconds}
	a.mux = a.newMux([]route{{method: "GET", path: "/boom", access: open, handle: handle}})
	return a
}

func TestPanicIsAnswered(t *testing.T) {
	w := httptest.NewRecorder()
	panicking(t, func(*call) error { panic("secret words") }).ServeHTTP(w, httptest.NewRequest("GET", "/boom", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"code":"internal"`) || strings.Contains(w.Body.String(), "secret words") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestPanicAfterTheAnswerBeganBreaksTheConnection(t *testing.T) {
	web := httptest.NewServer(panicking(t, func(c *call) error {
		c.Header().Set("Content-Length", "100")
		c.WriteHeader(200)
		_, _ = c.Write([]byte("half"))
		panic("boom")
	}))
	defer web.Close()
	answer, err := http.Get(web.URL + "/boom")
	if err != nil {
		return // broken before the header came through: just as good
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("a half answer looks whole: %q", body)
	}
}
