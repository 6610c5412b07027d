package config

import (
	"path/filepath"
	"regexp"
	"strings"
)

// betweenDatabases is a comma that is none between the hosts of one URL.
var betweenDatabases = regexp.MustCompile(`,(postgres(ql)?://|\.*/)`)

// maxOutboxBatch bounds the events of one commit.
const maxOutboxBatch = 2000

// outboxes reads the databases whose outboxes are relayed.
func (r *reader) outboxes(c Config) []string {
	var out []string
	for value := range strings.SplitSeq(r.text("outbox"), listSeparator) {
		value = strings.TrimSpace(value)
		switch {
		case value == "":
			continue
		case strings.Contains(value, "://") && betweenDatabases.MatchString(value):
			r.wrong("outbox", "has a comma between two databases; repeat the flag, or in a variable put a space between them")
		case !r.checkDatabase("outbox", value):
		case !c.Database.IsPostgres() && samePath(value, c.Database.Name):
			r.wrong("outbox", "names the file of --db, which belongs to the engine alone")
		}
		out = append(out, value)
	}
	if c.Roles == (Roles{Relay: true}) && len(out) == 0 && !r.isWrong("roles") {
		r.wrong("roles", "names relay alone, and there is no --outbox")
	}
	if c.OutboxBatch > maxOutboxBatch && !r.isWrong("outbox-batch") {
		r.wrong("outbox-batch", "is %d; want %d at most, since a batch is one commit", c.OutboxBatch, maxOutboxBatch)
	}
	return out
}

func samePath(a, b string) bool {
	one, err := filepath.Abs(a)
	other, otherErr := filepath.Abs(b)
	return err == nil && otherErr == nil && one == other
}
