package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/posthaste-dev/posthaste"
)

type healthBody struct {
	Status string `json:"status" enum:"ok"`
}

type readyBody struct {
	Status  string `json:"status" enum:"ok,degraded" doc:"degraded: events are accepted, but attempts fail for a reason on this server"`
	Problem string `json:"problem,omitempty" doc:"What this server lacks"`
}

// live says that the process answers; whether it can work is for ready to say.
func (a *api) live(c *call) error {
	c.write(http.StatusOK, healthBody{"ok"})
	return nil
}

// ready says whether events can be accepted, delivered and relayed here now.
func (a *api) ready(c *call) error {
	if err := a.Ready(); err != nil {
		return &posthaste.Error{
			Code: posthaste.CodeUnavailable, Message: "not ready: " + explainReady(err), Hint: "ask again after Retry-After", Err: err,
		}
	}
	body := readyBody{Status: "ok", Problem: a.Pipeline.Shortage()}
	if body.Problem != "" {
		body.Status = "degraded"
	}
	c.write(http.StatusOK, body)
	return nil
}

// explainReady shows the pipeline's own words and no cause below them.
func explainReady(err error) string {
	if e := explain(err); e.Code != posthaste.CodeInternal {
		return e.Message
	}
	return err.Error()
}

func (a *api) metrics(c *call) error {
	promhttp.HandlerFor(a.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(c, c.r)
	return nil
}

type homeBody struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Docs    string `json:"docs"`
	OpenAPI string `json:"openapi"`
}

func (a *api) home(c *call) error {
	c.write(http.StatusOK, homeBody{Name: "posthaste", Version: a.Version, Docs: "/docs", OpenAPI: "/openapi.json"})
	return nil
}

// requestSeconds is the duration of requests by route and class of status.
type requestSeconds struct {
	histogram *prometheus.HistogramVec
	unrouted  served // paths that no route has count as one: what a caller makes up must not make series
}

func newRequestSeconds(r prometheus.Registerer) (*requestSeconds, error) {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "posthaste", Name: "http_request_seconds", Help: "Duration of a request to the API, by route and class of status.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16), // 0.5 ms … 16 s
	}, []string{"method", "route", "status"})
	return &requestSeconds{histogram: h, unrouted: served{route: route{path: "none"}}}, r.Register(h)
}

// observe counts a request. The observers of a route are kept with it, since to
// look one up costs the hot path more than to observe.
func (s *requestSeconds) observe(r *served, status int, took time.Duration) {
	if r == nil {
		r = &s.unrouted
	}
	digit := 2 // a handler that wrote nothing has answered 200
	if status >= 200 && status <= 599 {
		digit = status / 100
	}
	observer := r.seconds[digit].Load()
	if observer == nil {
		found := s.histogram.WithLabelValues(r.method, r.path, strconv.Itoa(digit)+"xx")
		observer = &found
		r.seconds[digit].Store(observer)
	}
	(*observer).Observe(took.Seconds())
}
