package httpapi

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// sourceRequest is laid over the defaults, a patch over the source as it stands.
type sourceRequest struct {
	posthaste.SourceDefinition
	Label
	Secrets []string `json:"secrets" doc:"What the provider signs with, as the provider's page in the reference says. Any of them may match, so that one can be replaced or two apps can send here. Never shown"`
}

func newSource() sourceRequest {
	return sourceRequest{SourceDefinition: posthaste.DefaultSourceDefinition(), Label: newLabel(), Secrets: []string{}}
}

// sourceBody is a source as the API shows it.
type sourceBody struct {
	ID  string `json:"id"`
	URL string `json:"url" doc:"The path, on this server, that the provider sends to. Whoever knows it can send; what is not signed as it should be is refused"`
	posthaste.SourceDefinition
	SecretCount int               `json:"secret_count" doc:"How many secrets it has"`
	Rejected    int               `json:"rejected_in_a_row" doc:"Deliveries that could not be verified since the last one that could"`
	UID         *string           `json:"uid" doc:"Your own id for it"`
	Metadata    map[string]string `json:"metadata" doc:"Your own words on it"`
	Version     int               `json:"version" doc:"Rises with every change; also the ETag"`
	CreatedAt   moment            `json:"created_at"`
	UpdatedAt   moment            `json:"updated_at"`
}

// sourcePath is where a source takes deliveries.
const sourcePath = "/in/"

func showSource(row store.SourceRow, secret pipeline.SourceSecrets) sourceBody {
	id := row.ID.Print(posthaste.KindSource)
	d := row.SourceDefinition
	d.Settings = maskedSettings(d, secret)
	metadata := row.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return sourceBody{
		ID: id, URL: sourcePath + id, SourceDefinition: d, SecretCount: len(secret.Secrets), Rejected: row.Rejected,
		UID: orNull(row.UID), Metadata: metadata, Version: row.Version, CreatedAt: moment(row.CreatedAt), UpdatedAt: moment(row.UpdatedAt),
	}
}

func (a *api) answerSource(c *call, status int, row store.SourceRow) error {
	secret, err := a.Pipeline.OpenSource(row)
	if err != nil {
		return err
	}
	c.Header().Set("ETag", etag(row.Version))
	c.write(status, showSource(row, secret))
	return nil
}

// readSourceRequest reads a body over in, and tells everything that is wrong with
// it. present is what is secret about the source so far.
func (a *api) readSourceRequest(body []byte, in *sourceRequest, present pipeline.SourceSecrets) (posthaste.Source, pipeline.SourceSecrets, error) {
	defaults := newSource()
	problems, err := problemsOf(decode(body, in, &defaults, nil))
	if err != nil {
		return posthaste.Source{}, pipeline.SourceSecrets{}, err
	}
	for _, more := range [][]posthaste.Problem{
		in.Validate(), posthaste.ValidateSourceSecrets("secrets", in.Secrets), in.validate(),
	} {
		problems = append(problems, without(more, problems)...)
	}
	definition, secret, more := splitSecrets(in.SourceDefinition, in.Secrets, present)
	problems = append(problems, without(more, problems)...)
	if more, err = problemsOf(checkProvider(definition, secret)); err == nil {
		err = posthaste.Invalid(append(problems, without(more, problems)...))
	}
	return posthaste.Source{SourceDefinition: definition, UID: in.UID, Metadata: in.Metadata}, secret, err
}

func (a *api) createSource(c *call) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	raw, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	in := newSource()
	source, secret, err := a.readSourceRequest(raw, &in, pipeline.SourceSecrets{})
	if err != nil {
		return err
	}
	row, err := a.Pipeline.CreateSource(c.r.Context(), c.tenant, source, secret)
	if err != nil {
		return err
	}
	c.Header().Set("Location", "/v1/sources/"+row.ID.Print(posthaste.KindSource))
	return a.answerSource(c, http.StatusCreated, row)
}

// findSource finds the source that the path of a request without parameters
// names, by its id or, after "uid:", by its owner's own.
func (a *api) findSource(c *call, known ...string) (row store.SourceRow, pre precondition, err error) {
	if err = newQuery(c, known...).err(); err == nil {
		pre, err = c.precondition()
	}
	if err != nil {
		return row, pre, err
	}
	if uid, isUID := pathUID(c, "id"); isUID {
		if len(posthaste.ValidateUID("uid", uid)) > 0 {
			return row, pre, notFound("source")
		}
		row, err = a.store.SourceByUID(c.r.Context(), c.tenant.No, uid)
	} else {
		var id posthaste.ID
		if id, err = pathID(c, posthaste.KindSource, "source"); err != nil {
			return row, pre, err
		}
		row, err = a.store.Source(c.r.Context(), c.tenant.No, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("source")
	}
	return row, pre, err
}

func (a *api) readSource(c *call) error {
	row, pre, err := a.findSource(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	return a.answerSource(c, http.StatusOK, row)
}

func (a *api) patchSource(c *call) error {
	row, pre, err := a.findSource(c)
	if err != nil {
		return err
	}
	raw, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	return a.changeSource(c, row.ID, pre, func(edit *pipeline.SourceEdit) error {
		in := sourceRequest{SourceDefinition: edit.SourceDefinition, Label: Label{edit.UID, edit.Metadata}, Secrets: edit.Secret.Secrets}
		in.Settings = maskedSettings(edit.SourceDefinition, edit.Secret)
		return a.editSource(raw, &in, edit)
	})
}

// editSource lays a request over a source.
func (a *api) editSource(raw []byte, in *sourceRequest, edit *pipeline.SourceEdit) error {
	source, secret, err := a.readSourceRequest(raw, in, edit.Secret)
	if err != nil {
		return err
	}
	edit.SourceDefinition, edit.UID, edit.Metadata, edit.Secret = source.SourceDefinition, source.UID, source.Metadata, secret
	return nil
}

func (a *api) changeSource(c *call, id posthaste.ID, pre precondition, change func(*pipeline.SourceEdit) error) error {
	row, err := a.Pipeline.ChangeSource(c.r.Context(), c.tenant, id, func(edit *pipeline.SourceEdit) error {
		if err := pre.check(edit.Version); err != nil {
			return err
		}
		return change(edit)
	})
	if errors.Is(err, store.ErrNotFound) {
		return notFound("source")
	}
	if err != nil {
		return err
	}
	return a.answerSource(c, http.StatusOK, row)
}

// putSource makes the source of a uid, or replaces what its owner wrote of one
// that exists; by an id it only replaces. The same request again changes nothing.
func (a *api) putSource(c *call) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	pre, err := c.precondition()
	if err != nil {
		return err
	}
	raw, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	replace := func(edit *pipeline.SourceEdit) error {
		in := newSource()
		return a.editSource(raw, &in, edit)
	}
	uid, isUID := pathUID(c, "id")
	if !isUID {
		row, _, err := a.findSource(c)
		if err != nil {
			return err
		}
		return a.changeSource(c, row.ID, pre, replace)
	}
	if problems := posthaste.ValidateUID("uid", uid); len(problems) > 0 {
		return oneProblem("uid", "in the path is not one", problems[0].Hint)
	}
	row, made, err := a.Pipeline.PutSource(c.r.Context(), c.tenant, uid,
		func() (posthaste.Source, pipeline.SourceSecrets, error) {
			if err := pre.checkNone(); err != nil {
				return posthaste.Source{}, pipeline.SourceSecrets{}, err
			}
			in := newSource()
			source, secret, err := a.readSourceRequest(raw, &in, pipeline.SourceSecrets{})
			if err == nil {
				err = sameUID(source.UID, uid)
			}
			return source, secret, err
		},
		func(edit *pipeline.SourceEdit) error {
			if err := pre.check(edit.Version); err != nil {
				return err
			}
			if err := replace(edit); err != nil {
				return err
			}
			given := edit.UID
			edit.UID = uid
			return sameUID(given, uid)
		})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if made {
		status = http.StatusCreated
		c.Header().Set("Location", "/v1/sources/"+row.ID.Print(posthaste.KindSource))
	}
	return a.answerSource(c, status, row)
}

// sameUID refuses a body whose uid is not the path's.
func sameUID(given, uid string) error {
	if given == "" || given == uid {
		return nil
	}
	return oneProblem("uid", "is not the one in the path", "leave it out, or change it with PATCH")
}

func (a *api) deleteSource(c *call) error {
	row, pre, err := a.findSource(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	err = a.Pipeline.DeleteSource(c.r.Context(), c.tenant, row.ID, pre.version(row.Version))
	return c.answerDeleted("source", err)
}

func (a *api) listSources(c *call) error {
	q := newQuery(c, "limit", "cursor")
	p := store.ListSourcesParams{
		Tenant: c.tenant.No, Limit: q.limit(),
		Before: store.SourceNo(q.numberCursor(sourceList)), // its id is random
	}
	if err := q.err(); err != nil {
		return err
	}
	rows, err := a.store.ListSources(c.r.Context(), p)
	if err != nil {
		return err
	}
	var next posthaste.ID
	if len(rows) == p.Limit {
		next = numberAsID(int32(rows[len(rows)-1].No))
	}
	secrets := make(map[store.SourceNo]pipeline.SourceSecrets, len(rows))
	for _, row := range rows {
		if secrets[row.No], err = a.Pipeline.OpenSource(row); err != nil {
			return err
		}
	}
	show := func(row store.SourceRow) sourceBody { return showSource(row, secrets[row.No]) }
	c.write(http.StatusOK, newPage(rows, show, printCursor(sourceList, next)))
	return nil
}

// rejectionBody is a delivery that could not be verified, as the API shows it.
type rejectionBody struct {
	ReceivedAt   moment             `json:"received_at"`
	Reason       string             `json:"reason" doc:"In a word, such as wrong_secret, body_changed, stale_timestamp or missing_header"`
	Detail       string             `json:"detail" doc:"What is wrong"`
	Hint         string             `json:"hint" doc:"The next step"`
	Method       string             `json:"method"`
	Headers      []posthaste.Header `json:"headers" doc:"As they came, credentials masked"`
	Body         string             `json:"body" doc:"Its first 8 KiB. Bodies of up to 256 KiB are kept whole"`
	BodyEncoding string             `json:"body_encoding" enum:"text,base64" doc:"base64 where the body is not UTF-8"`
	BodyBytes    int                `json:"body_bytes" doc:"How many there were"`
}

func showRejection(r posthaste.Rejection) rejectionBody {
	body := rejectionBody{
		ReceivedAt: moment(r.At()), Reason: r.Reason, Detail: r.Detail, Hint: r.Hint, Method: r.Method,
		Headers: r.Headers, BodyEncoding: "text", BodyBytes: r.BodyBytes,
	}
	if body.Headers == nil {
		body.Headers = []posthaste.Header{}
	}
	shown := r.Body[:min(len(r.Body), posthaste.MaxShownBodyBytes)]
	if body.Body = string(shown); !utf8.Valid(shown) {
		body.Body, body.BodyEncoding = base64.StdEncoding.EncodeToString(shown), "base64"
	}
	return body
}

func (a *api) listRejections(c *call) error {
	row, _, err := a.findSource(c, "limit", "cursor")
	if err != nil {
		return err
	}
	q := newQuery(c, "limit", "cursor")
	p := store.ListRejectionsParams{Source: row.No, Before: q.cursor(rejectionList), Limit: q.limit()}
	if err := q.err(); err != nil {
		return err
	}
	rejections, err := a.store.ListRejections(c.r.Context(), p)
	if err != nil {
		return err
	}
	var next posthaste.ID
	if len(rejections) == p.Limit {
		next = rejections[len(rejections)-1].ID
	}
	c.write(http.StatusOK, newPage(rejections, showRejection, printCursor(rejectionList, next)))
	return nil
}

// mask stands where a secret setting is shown; sent back, it means the present one.
const mask = "********"

// maskedSettings are the settings of a source as they are shown.
func maskedSettings(d posthaste.SourceDefinition, secret pipeline.SourceSecrets) map[string]string {
	out := map[string]string{}
	maps.Copy(out, d.Settings)
	for name := range secret.Settings {
		out[name] = mask
	}
	return out
}
