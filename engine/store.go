package engine

import "github.com/posthaste-dev/posthaste/internal/store"

// Store is a database that an engine can be made on: what sqlite.Open and
// postgres.Open return. It has a name here for programs that open one or the other.
type Store = store.Store
