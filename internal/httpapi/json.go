package httpapi

import "bytes"

// maxJSONBytes bounds the bodies of all requests but events: an endpoint with
// everything it can have takes some 100 KiB.
const maxJSONBytes = 256 << 10

// readJSON reads a body into the struct that in points to; see decode. The
// Content-Type is not asked for: the body is JSON or it is refused, and what
// curl sends by itself should work.
func (a *api) readJSON(c *call, in, defaults any, later map[string]laterField) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	body, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	return decode(body, in, defaults, later)
}

// readOptionalJSON is readJSON for a body that may be left out.
func (a *api) readOptionalJSON(c *call, in, defaults any) error {
	body, err := a.readBody(c, maxJSONBytes)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return decode(body, in, defaults, nil)
}

// noBody reads the body of a request that has nothing to say: none, or {}.
func (a *api) noBody(c *call) error {
	return a.readOptionalJSON(c, &struct{}{}, &struct{}{})
}
