package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	sqlDropExpired   = `DELETE FROM endpoint_secrets WHERE endpoint = ?1 AND expires_at <> 0 AND expires_at <= ?2`
	sqlExpireSecrets = `UPDATE endpoint_secrets SET expires_at = ?2 WHERE endpoint = ?1 AND (expires_at = 0 OR expires_at > ?2)`
	sqlRotated       = `UPDATE endpoints SET version = version + 1, updated_at = ?2, routing_version = ?3 WHERE no = ?1`
	sqlCopyVersion   = `INSERT INTO endpoint_versions (endpoint, version, definition, routing_version) SELECT no, version, definition, routing_version FROM endpoints WHERE no = ?1`
)

// RotateSecret implements store.Endpoints.
func (db *DB) RotateSecret(ctx context.Context, p store.RotateSecretParams) (store.EndpointRow, error) {
	var out store.EndpointRow
	err := db.write(ctx, "rotate secret", func(c *conn) error {
		old, err := endpointAt(c, p.Tenant, p.ID, p.FromVersion)
		if err != nil {
			return err
		}
		routing, err := db.raiseRouting(c, p.Tenant)
		if err != nil {
			return err
		}
		for _, s := range []struct {
			query string
			args  []any
		}{
			{sqlExpireSecrets, []any{old.No, p.ExpireAt}},
			{sqlDropExpired, []any{old.No, p.Now}},
			{sqlInsertSecret, []any{old.No, p.Secret.No, p.Secret.Sealed, p.Secret.KeyID, p.Secret.ExpiresAt}},
			{sqlRotated, []any{old.No, p.Now, routing}},
			{sqlCopyVersion, []any{old.No}},
		} {
			if _, err := c.exec(s.query, s.args...); err != nil {
				return err
			}
		}
		out, err = readEndpoint(c, sqlEndpointByNo, old.No)
		return err
	})
	if err != nil {
		return store.EndpointRow{}, err
	}
	return out, nil
}

const sqlDropSecrets = `DELETE FROM endpoint_secrets WHERE (endpoint, no) IN (
  SELECT endpoint, no FROM endpoint_secrets WHERE expires_at <> 0 AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2)`

// dropSecrets deletes secrets that have expired; see Retain.
func (db *DB) dropSecrets(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = db.write(ctx, "delete expired secrets", func(c *conn) (err error) {
		n, err = c.exec(sqlDropSecrets, now, limit)
		return err
	})
	return n, err
}

const sqlSecrets = `SELECT no, sealed, key_id, expires_at FROM endpoint_secrets WHERE endpoint = ?1 ORDER BY no`

func readSecrets(c *conn, no store.EndpointNo) (out []store.SealedSecret, err error) {
	for r, err := range c.rows(sqlSecrets, no) {
		if err != nil {
			return nil, err
		}
		out = append(out, store.SealedSecret{No: r.ColumnInt(0), Sealed: r.bytes(1), KeyID: r.ColumnText(2), ExpiresAt: r.at(3)})
	}
	return out, nil
}
