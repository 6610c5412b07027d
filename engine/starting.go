package engine

import (
	"net/http"

	"github.com/posthaste-dev/posthaste/internal/httpapi"
)

// StartingHandler returns a handler for a server that listens before its engine can be
// made, because the database is away. GET /livez is answered 200. Everything else is 503
// with Retry-After, and says what awaited returns, such as "waiting for the database".
func StartingHandler(awaited func() string) http.Handler { return httpapi.Starting(awaited) }
