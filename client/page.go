package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Page is a part of a list, newest first.
type Page[T any] struct {
	Data []T    `json:"data"`
	Next string `json:"next"` // the cursor of the next page; "" at the end
}

// Paging says which part of a list to read.
type Paging struct {
	// Limit is the most a page holds, 1 to 250. A page may hold less and yet not
	// be the last. Default: 50.
	Limit int
	// Cursor is the Next of the page before. Default: from the newest.
	Cursor string
}

func (p Paging) set(q url.Values) {
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	setText(q, "cursor", p.Cursor)
}

func setText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, at time.Time) {
	if !at.IsZero() {
		q.Set(name, at.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
}

// list reads one page.
func list[T any](ctx context.Context, c *Client, path string, query url.Values) (Page[T], error) {
	return doJSON[Page[T]](ctx, c, call{method: http.MethodGet, path: path, query: query}, nil)
}

// all yields the items of a list page by page, from the query's cursor on. An
// error is yielded once and ends it.
func all[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query) // a second walk begins where the first did
		for {
			page, err := list[T](ctx, c, path, query)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Data {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}
