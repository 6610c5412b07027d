package httpapi

import (
	"net/http"

	"github.com/posthaste-dev/posthaste"
)

// Starting returns the handler for the time before the API can be made, while the
// database is away. GET /livez is answered 200. Everything else is 503, with what
// awaited returns in the detail, such as "waiting for the database".
func Starting(awaited func() string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{ResponseWriter: w, r: r, id: newRequestID(), detached: true}
		c.Header().Set(headerRequestID, c.id)
		if r.URL.Path == "/livez" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			c.write(http.StatusOK, healthBody{"ok"})
			return
		}
		c.refuse(&posthaste.Error{Code: posthaste.CodeUnavailable, Message: "not ready: " + awaited(), Hint: "send the request again after Retry-After"})
	})
}
