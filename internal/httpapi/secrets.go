package httpapi

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/signature"
)

// defaultOverlap is how long receivers get to take in a new secret.
const defaultOverlap = 24 * time.Hour

type rotateRequest struct {
	Overlap posthaste.Duration `json:"overlap" doc:"How long the secrets before it go on signing, 24h where it is left out; 0s to 720h. What ends earlier stays so"`
	Secret  *string            `json:"secret" doc:"The new secret; made where none is given"`
}

// secretBody is a secret as the API shows it: never itself.
type secretBody struct {
	Number    int    `json:"number" doc:"1, 2, 3 … within the endpoint"`
	ExpiresAt moment `json:"expires_at" doc:"From this moment on it signs no more; null: it does not expire"`
}

func showSecrets(secrets []store.SealedSecret) []secretBody {
	out := make([]secretBody, 0, len(secrets))
	for _, s := range slices.Backward(secrets) {
		out = append(out, secretBody{Number: s.No, ExpiresAt: moment(s.ExpiresAt)})
	}
	return out
}

// rotateSecret answers with the new secret, this once.
func (a *api) rotateSecret(c *call) error {
	row, pre, err := a.livingEndpoint(c)
	if err == nil {
		err = noHandler(row, "signs nothing")
	}
	if err != nil {
		return err
	}
	in := rotateRequest{Overlap: posthaste.Duration(defaultOverlap)}
	defaults := in
	problems, err := problemsOf(a.readOptionalJSON(c, &in, &defaults))
	if err != nil {
		return err
	}
	if o := time.Duration(in.Overlap); o < 0 || o > pipeline.MaxOverlap {
		problems = append(problems, posthaste.Problem{
			Field: "overlap", Message: "is " + in.Overlap.String(), Hint: fmt.Sprintf("0s to %s", posthaste.Duration(pipeline.MaxOverlap)),
		})
	}
	secret := signature.NewSecret()
	if in.Secret != nil {
		secret = *in.Secret
		problems = append(problems, checkSecret(row.Signature.Scheme, secret)...)
	}
	if err := posthaste.Invalid(problems); err != nil {
		return err
	}
	row, err = a.Pipeline.RotateSecret(c.r.Context(), c.tenant, row.ID, pipeline.Rotation{Secret: secret, Overlap: time.Duration(in.Overlap)},
		func(row *store.EndpointRow) error {
			if err := pre.check(row.Version); err != nil {
				return err
			}
			return posthaste.Invalid(checkSecret(row.Signature.Scheme, secret))
		})
	if errors.Is(err, store.ErrNotFound) {
		return notFound("endpoint")
	}
	if err != nil {
		return err
	}
	gates, err := a.gatesOf(c, row)
	if err != nil {
		return err
	}
	body := showEndpoint(row, gates[row.No])
	body.Secret = secret
	c.Header().Set("Cache-Control", "no-store")
	c.answerEndpoint(http.StatusOK, body)
	return nil
}

func checkSecret(scheme, secret string) []posthaste.Problem {
	if err := fitsScheme(scheme, secret); err != nil {
		return []posthaste.Problem{{Field: "secret", Message: "cannot be used", Hint: err.Error() + "; leave it out to have one made"}}
	}
	return nil
}

func fitsScheme(scheme, secret string) error {
	if scheme == posthaste.SchemeHex {
		return signature.CheckHex(secret)
	}
	return signature.CheckStandard(secret)
}

// secretProblems says what a change of an endpoint cannot do to its secret: swap
// it in passing, which would leave the receiver without an overlap, or move to a
// scheme that one of its secrets does not fit. given is nil where the request
// names none.
func (a *api) secretProblems(row store.EndpointRow, scheme string, given *string) (problems []posthaste.Problem, err error) {
	if given == nil && scheme == row.Signature.Scheme {
		return nil, nil
	}
	secrets, err := a.Pipeline.Secrets(row)
	if err != nil {
		return nil, err
	}
	if given != nil && (len(secrets) == 0 || subtle.ConstantTimeCompare([]byte(secrets[0]), []byte(*given)) != 1) {
		problems = append(problems, posthaste.Problem{
			Field: "secret", Message: "is not the endpoint's present one",
			Hint: "leave it out, and replace it with POST /v1/endpoints/" + row.ID.Print(posthaste.KindEndpoint) + "/rotate-secret",
		})
	}
	if scheme != posthaste.SchemeHex && scheme != posthaste.SchemeStandard {
		return problems, nil // told already
	}
	for _, s := range secrets {
		if err := fitsScheme(scheme, s); scheme != row.Signature.Scheme && err != nil {
			problems = append(problems, posthaste.Problem{
				Field: "signature.scheme", Message: fmt.Sprintf("cannot be changed to %s: a secret that signs does not fit it", scheme),
				Hint: `first rotate to a secret that fits both, with "overlap":"0s"; one that is made does`,
			})
			break
		}
	}
	return problems, nil
}
