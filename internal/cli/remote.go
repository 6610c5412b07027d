package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste/client"
)

// remote are the flags of commands that talk to a server. The key has no flag:
// it would be seen in the list of processes and in the shell's history.
type remote struct {
	Server string `env:"POSTHASTE_SERVER" default:"http://127.0.0.1:8700" placeholder:"URL" help:"URL of the server. The key is read from POSTHASTE_KEY or POSTHASTE_KEY_FILE. Default: ${default}."`
	Tenant string `env:"POSTHASTE_TENANT" placeholder:"NAME" help:"Tenant, with an admin key; * reads the endpoints and deliveries of all tenants. Default: default."`
	JSON   bool   `name:"json" help:"Print JSON, one object a line."`
}

func (r remote) client() (*client.Client, error) {
	key := os.Getenv("POSTHASTE_KEY")
	if file := os.Getenv("POSTHASTE_KEY_FILE"); key == "" && file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, usageError{"read the key that POSTHASTE_KEY_FILE names: " + err.Error()}
		}
		key = strings.TrimSpace(string(raw))
	}
	c, err := client.New(client.Config{Server: r.Server, Key: key, Tenant: r.Tenant})
	if err != nil {
		return nil, usageError{err.Error()}
	}
	return c, nil
}

func (r remote) printer(s Streams) printer { return printer{Streams: s, json: r.JSON} }

// label are the flags of objects that their owner can name.
type label struct {
	UID      string            `name:"uid" placeholder:"ID" help:"Your own id, by which other commands accept it as uid:ID."`
	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Metadata; may be repeated."`
}

// listing are the flags of lists.
type listing struct {
	Limit int `default:"50" placeholder:"N" help:"Maximum number to print, newest first. Default: ${default}."`
}

// paging asks for pages of what is still to be printed.
func (l listing) paging() (client.Paging, error) {
	if l.Limit < 1 {
		return client.Paging{}, usageError{"--limit must be 1 or more"}
	}
	const largestPage = 250
	return client.Paging{Limit: min(l.Limit, largestPage)}, nil
}

// window are the flags of lists that are bounded in time.
type window struct {
	Since string `placeholder:"TIME" help:"Accepted at this time or later: RFC 3339, or an age such as 2h."`
	Until string `placeholder:"TIME" help:"Accepted before this time: RFC 3339, or an age such as 2h."`
}

func (w window) times() (since, until time.Time, err error) {
	now := time.Now()
	if since, err = readTime("--since", w.Since, now); err != nil {
		return since, until, err
	}
	until, err = readTime("--until", w.Until, now)
	return since, until, err
}

// readTime reads a time, or how long before now it was.
func readTime(flag, value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(value); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return at, usageError{fmt.Sprintf("%s is %q; want a time such as %s, or how long ago it was, such as 2h", flag, value, now.UTC().Format(time.RFC3339))}
	}
	return at, nil
}
