// Package pgconnect explains why a PostgreSQL cannot be connected to: a URL that the
// driver does not understand, or a server that refuses the connection.
package pgconnect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
)

// URLForm is the form of a URL, for messages.
const URLForm = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"

// CheckURL reads a postgres:// URL as the driver does. The error is to be read after the
// name of a setting. It never quotes the URL, which may hold a password.
func CheckURL(value string) error {
	u, err := url.Parse(value)
	if err != nil {
		return errors.New("is not a URL that can be read; escape special characters of the password as %XX")
	}
	_, err = pgx.ParseConfig(value)
	if err == nil {
		return nil
	}
	const what = "is not a URL that PostgreSQL can be reached by; want " + URLForm
	cause := errors.Unwrap(err)
	if cause == nil || quotes(cause.Error(), u) {
		return errors.New(what)
	}
	return fmt.Errorf("%s (%w)", what, cause)
}

// quotes reports whether a text repeats a URL or its password.
func quotes(text string, u *url.URL) bool {
	password, has := u.User.Password()
	return strings.Contains(text, "://") || has && strings.Contains(text, password)
}

// refusals are the answers of a server that no waiting changes, by SQLSTATE
// (https://www.postgresql.org/docs/current/errcodes-appendix.html), with the next step.
var refusals = map[string]string{
	"3D000": "check the database's name in the URL, or create it: CREATE DATABASE name",
	"28P01": "check the user and the password in the URL",
	"28000": "check the user in the URL: the role must exist, be allowed to log in, and be allowed in by pg_hba.conf",
	"42501": "grant the role the right to connect: GRANT CONNECT ON DATABASE name TO role",
	"42704": "check the parameters of the URL: the server does not know one of them",
	"22023": "check the parameters of the URL: the server refuses the value of one of them",
}

// Explain turns a server's refusal of a connection (a database, role, password or
// parameter that is wrong) into a *[posthaste.Error] with a hint. Waiting does not help
// against those. The same holds for TLS that the two sides do not agree on. Any other error, such as a
// server that is away, is returned as it is.
func Explain(err error) error {
	if isTLS(err) {
		return &posthaste.Error{
			Code: posthaste.CodeInternal, Message: "no secure connection to PostgreSQL: " + tlsCause(err),
			Hint: "check sslmode and sslrootcert in the URL against what the server offers",
		}
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.Severity != "FATAL" || refusals[answer.Code] == "" {
		return err
	}
	return &posthaste.Error{
		Code: posthaste.CodeInternal, Message: "PostgreSQL refuses the connection: " + answer.Message, Hint: refusals[answer.Code],
	}
}

// isTLS reports whether the server offers no TLS, or a certificate that is not trusted.
func isTLS(err error) bool {
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	return isCertificate || err != nil && strings.Contains(err.Error(), "server refused TLS connection")
}

// tlsCause returns the innermost cause, without the addresses that stand before it.
func tlsCause(err error) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e.Err.Error()
	}
	return "the server refused TLS"
}
