package relay

import "path/filepath"

// open returns the outbox that a URL or a path names, and its name.
func open(outbox string, home Home, accept acceptFunc) (box, string, error) {
	if !isPostgres(outbox) {
		return &sqliteBox{path: outbox, store: accept}, filepath.Base(outbox), nil
	}
	b, err := newPostgresBox(outbox, home, accept)
	if err != nil {
		return nil, "", err
	}
	return b, b.name(), nil
}
