package client_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/posthaste-dev/posthaste/client"
)

func TestTenantsAndListsWithDeletedOnes(t *testing.T) {
	type request struct{ method, path, ifMatch, body string }
	var last request
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		last = request{r.Method, r.URL.RequestURI(), r.Header.Get("If-Match"), string(raw)}
		return answerJSON(w, 200, `{}`)
	})
	ctx := t.Context()
	for _, tt := range []struct {
		call func() error
		want request
	}{
		{func() error { _, err := c.Endpoints.List(ctx, client.EndpointFilter{Deleted: true}); return err }, request{"GET", "/v1/endpoints?deleted=true", "", ""}},
		{func() error { _, err := c.Endpoints.List(ctx, client.EndpointFilter{}); return err }, request{"GET", "/v1/endpoints", "", ""}},
		{func() error { _, err := c.Tenants.List(ctx, client.TenantFilter{Deleted: true}); return err }, request{"GET", "/v1/tenants?deleted=true", "", ""}},
		{func() error { _, err := c.Tenants.Create(ctx, client.NewTenant{Name: "a", UID: "u"}); return err }, request{"POST", "/v1/tenants", "", `{"name":"a","uid":"u"}`}},
		{func() error { _, err := c.Tenants.IfVersion(1).Put(ctx, "u", client.NewTenant{Name: "a"}); return err }, request{"PUT", "/v1/tenants/uid:u", `"1"`, `{"name":"a"}`}},
		{func() error {
			_, err := c.Tenants.IfVersion(2).Update(ctx, "a", map[string]any{"metadata": map[string]any{"k": nil}})
			return err
		}, request{"PATCH", "/v1/tenants/a", `"2"`, `{"metadata":{"k":null}}`}},
		{func() error { _, err := c.Tenants.Get(ctx, "a"); return err }, request{"GET", "/v1/tenants/a", "", ""}},
		{func() error { return c.Tenants.IfVersion(9).Delete(ctx, "uid:u") }, request{"DELETE", "/v1/tenants/uid:u", `"9"`, ""}},
	} {
		if err := tt.call(); err != nil || last != tt.want {
			t.Errorf("sent %+v, %v; want %+v", last, err, tt.want)
		}
	}
}
