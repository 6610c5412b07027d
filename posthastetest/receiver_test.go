package posthastetest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/posthastetest"
	"github.com/posthaste-dev/posthaste/signature"
)

// request makes a delivery by hand. change may be nil.
type request struct {
	id, secret string
	attempt    int
	change     func(http.Header)
}

// post sends it and returns status and body of the answer, 0 if none came.
func post(ctx context.Context, t *testing.T, url string, r request) (int, string, error) {
	t.Helper()
	const body = `{"n":1}`
	signer, err := signature.NewStandard(r.secret)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/hook?a=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	req.Header.Set(signature.HeaderID, r.id)
	req.Header.Set(signature.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(signature.HeaderSignature, string(signer.Append(nil, r.id, now, []byte(body))))
	req.Header.Set("posthaste-event-type", "invoice.paid")
	req.Header.Set("posthaste-delivery-id", "dlv_1")
	req.Header.Set("posthaste-attempt", strconv.Itoa(r.attempt))
	if r.change != nil {
		r.change(req.Header)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get("Retry-After") + string(text), err
}

func TestReceiverRecords(t *testing.T) {
	r := posthastetest.NewReceiver(t, posthastetest.Config{})
	if code, _, err := post(t.Context(), t, r.URL, request{id: "evt_1", secret: r.Secret, attempt: 3}); code != 200 || err != nil {
		t.Fatalf("answered %d, %v", code, err)
	}
	got, err := r.Wait(t.Context(), 1)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d arrived, %v", len(got), err)
	}
	a := got[0]
	if a.EventID != "evt_1" || a.DeliveryID != "dlv_1" || a.Type != "invoice.paid" || a.Attempt != 3 || a.URL != "/hook?a=1" ||
		string(a.Body) != `{"n":1}` || a.Err != nil || time.Since(a.At) > time.Minute || a.Header.Get("Webhook-Id") != "evt_1" {
		t.Errorf("recorded %+v", a)
	}
	if len(r.Refused()) != 0 || len(r.Arrived()) != 1 {
		t.Errorf("arrived %d, refused %d", len(r.Arrived()), len(r.Refused()))
	}
}

func TestReceiverVerifies(t *testing.T) {
	r := posthastetest.NewReceiver(t, posthastetest.Config{Secrets: []string{signature.NewSecret(), signature.NewSecret()}})
	r.Fail(503) // not for those that are refused
	for _, tt := range []struct {
		name   string
		secret string
		change func(http.Header)
		want   error
	}{
		{"another secret", signature.NewSecret(), nil, signature.ErrMismatch},
		{"no signature", r.Secret, func(h http.Header) { h.Del(signature.HeaderSignature) }, signature.ErrHeader},
		{"old", r.Secret, func(h http.Header) { h.Set(signature.HeaderTimestamp, "1700000000") }, signature.ErrTimestamp},
	} {
		if code, _, err := post(t.Context(), t, r.URL, request{id: tt.name, secret: tt.secret, change: tt.change}); code != 401 || err != nil {
			t.Errorf("%s: answered %d, %v", tt.name, code, err)
		}
		refused := r.Refused()
		if last := refused[len(refused)-1]; !errors.Is(last.Err, tt.want) || last.EventID != tt.name {
			t.Errorf("%s: %+v, want %v", tt.name, last, tt.want)
		}
	}
	if code, _, err := post(t.Context(), t, r.URL, request{id: "evt_1", secret: r.Secret}); code != 503 || err != nil {
		t.Errorf("the good one: %d, %v", code, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	arrived, err := r.Wait(ctx, 2)
	if !errors.Is(err, context.DeadlineExceeded) || len(arrived) != 1 || !strings.Contains(err.Error(), "1 arrived\n  invoice.paid evt_1, attempt 0\n3 refused") ||
		!strings.Contains(err.Error(), signature.ErrMismatch.Error()) {
		t.Errorf("waiting for a second one: %d, %v", len(arrived), err)
	}
}

func TestReceiverAnswers(t *testing.T) {
	r := posthastetest.NewReceiver(t, posthastetest.Config{Answer: func(a posthastetest.Arrival) posthastetest.Answer {
		if a.EventID == "evt_bad" {
			return posthastetest.Answer{Status: 410}
		}
		return posthastetest.Answer{Status: 204}
	}})
	r.Fail(500, 502)
	r.Next(posthastetest.Answer{Status: 429, Header: http.Header{"retry-after": {"7"}}, Body: " slow down"}, posthastetest.Answer{Drop: true},
		posthastetest.Answer{Delay: 50 * time.Millisecond})
	var got []string
	for _, id := range []string{"evt_1", "evt_bad", "evt_1", "evt_1", "evt_1", "evt_1", "evt_bad"} {
		began := time.Now()
		code, text, err := post(t.Context(), t, r.URL, request{id: id, secret: r.Secret})
		if (err != nil) != (code == 0) {
			t.Error(err)
		}
		if len(got) == 4 && time.Since(began) < 50*time.Millisecond {
			t.Error("the delay was not waited for")
		}
		got = append(got, strconv.Itoa(code)+text)
	}
	if want := []string{"500", "502", "4297 slow down", "0", "200", "204", "410"}; !slices.Equal(got, want) {
		t.Errorf("answered %q, want %q", got, want)
	}
	if n := len(r.Arrived()); n != 7 {
		t.Errorf("%d arrived", n)
	}
}

// TestReceiverHangs: neither the client that leaves nor Close waits.
func TestReceiverHangs(t *testing.T) {
	r := posthastetest.NewReceiver(t, posthastetest.Config{Answer: func(posthastetest.Arrival) posthastetest.Answer { return posthastetest.Answer{Hang: true} }})
	asking, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 2)
	for _, ctx := range []context.Context{asking, t.Context()} {
		go func() {
			_, _, err := post(ctx, t, r.URL, request{id: "evt_1", secret: r.Secret})
			ended <- err
		}()
	}
	if _, err := r.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("answered: %v", err)
	default:
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := r.Wait(t.Context(), 3)
		waited <- err
	}()
	r.Close()
	if err := <-ended; err == nil {
		t.Error("the one that stayed was answered")
	}
	if err := <-waited; err == nil || !strings.Contains(err.Error(), "closed; 2 arrived") {
		t.Errorf("Wait: %v", err)
	}
	r.Close()
}

func TestReceiverOfSchemeHex(t *testing.T) {
	const secret = "a-secret-of-the-shop"
	r := posthastetest.NewReceiver(t, posthastetest.Config{
		Secrets: []string{secret},
		Signature: posthaste.Signature{Scheme: posthaste.SchemeHex, Headers: posthaste.SignatureHeaders{
			ID: "X-Shop-Id", Timestamp: "X-Shop-Time", Event: "X-Shop-Event", Signature: "X-Shop-Signature",
		}},
	})
	signer, err := signature.NewHex(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	code, _, err := post(t.Context(), t, r.URL, request{id: "evt_1", secret: signature.NewSecret(), change: func(h http.Header) {
		h.Set("X-Shop-Id", "evt_shop")
		h.Set("X-Shop-Event", "order")
		h.Set("X-Shop-Time", strconv.FormatInt(now.Unix(), 10))
		h.Set("X-Shop-Signature", string(signer.Append(nil, now, []byte(`{"n":1}`))))
	}})
	if got := r.Arrived(); code != 200 || err != nil || len(got) != 1 || got[0].EventID != "evt_shop" || got[0].Type != "order" {
		t.Errorf("answered %d, %v, recorded %+v", code, err, got)
	}
	if code, _, _ := post(t.Context(), t, r.URL, request{id: "evt_1", secret: signature.NewSecret()}); code != 401 {
		t.Errorf("without its headers: %d", code)
	}
}

func TestStartRefuses(t *testing.T) {
	for want, config := range map[string]posthastetest.Config{
		"with secret 1":                  {Secrets: []string{"x"}},
		"needs the names of the headers": {Signature: posthaste.Signature{Scheme: posthaste.SchemeHex}, Secrets: []string{"a-secret-of-the-shop"}},
		`"md5" is not known`:             {Signature: posthaste.Signature{Scheme: "md5"}},
	} {
		if _, err := posthastetest.Start(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", config, err, want)
		}
	}
}
