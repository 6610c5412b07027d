package httpapi

import (
	"embed"
	"net/http"
)

// docsPage is the reference at /docs: plain HTML and a script that draws the OpenAPI
// document. Nothing of it comes from another host.
//
//go:embed page
var docsPage embed.FS

var docsTypes = map[string]string{
	"index.html": "text/html; charset=utf-8", "reference.js": "text/javascript; charset=utf-8", "reference.css": "text/css; charset=utf-8",
}

func (a *api) docs(c *call) error { return a.serveDocs(c, "index.html") }

func (a *api) docsFile(c *call) error { return a.serveDocs(c, c.r.PathValue("file")) }

func (a *api) serveDocs(c *call, name string) error {
	contentType, known := docsTypes[name]
	if !known {
		return notFound("page")
	}
	raw, err := docsPage.ReadFile("page/" + name)
	if err != nil {
		return err
	}
	h := c.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(raw)
	return nil
}

func (a *api) openAPI(c *call) error {
	h := c.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	c.WriteHeader(http.StatusOK)
	_, _ = c.Write(a.spec)
	return nil
}
