package store

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Sources are where providers' webhooks come in. A source is not part of a
// tenant's routing: whoever keeps one in memory has to read it again soon.
type Sources interface {
	// CreateSource stores a source (Version 1) with its sealed secrets. ErrTaken if
	// another one of the tenant has its uid; ErrNotFound if the tenant is deleted.
	CreateSource(ctx context.Context, p CreateSourceParams) (SourceRow, error)
	// UpdateSource replaces definition, uid, metadata and secrets of a source that is
	// at FromVersion; its version rises by one. ErrNotFound; ErrConflict at another
	// version; ErrTaken.
	UpdateSource(ctx context.Context, p UpdateSourceParams) (SourceRow, error)
	// DeleteSource deletes a source with its rejections; the events that came
	// through it stay. ErrNotFound; ErrConflict if it is not at FromVersion (0: any).
	DeleteSource(ctx context.Context, p DeleteSourceParams) error
	// Source returns a source, or ErrNotFound. Tenant 0 asks all tenants. Those of
	// a deleted tenant are not found.
	Source(ctx context.Context, tenant TenantNo, id posthaste.ID) (SourceRow, error)
	// SourceByUID returns the source of a tenant that has a uid, or ErrNotFound.
	SourceByUID(ctx context.Context, tenant TenantNo, uid string) (SourceRow, error)
	// ListSources returns a tenant's sources newest first, those with a number below Before (0: all).
	ListSources(ctx context.Context, p ListSourcesParams) ([]SourceRow, error)

	// AddRejection keeps a rejection, deletes the oldest ones beyond Keep, raises
	// the source's count of rejections in a row by Count, and returns the new count.
	// ErrNotFound if the source is deleted.
	AddRejection(ctx context.Context, p AddRejectionParams) (inARow int, err error)
	// ListRejections returns the rejections of a source, newest first, below Before (zero: all).
	ListRejections(ctx context.Context, p ListRejectionsParams) ([]posthaste.Rejection, error)
	// EndRejections sets a source's count of rejections in a row back to 0. One
	// that is 0, or whose source is gone, is left alone.
	EndRejections(ctx context.Context, source SourceNo) error
}

// SourceNo is the small number that rows carry instead of a source's id.
type SourceNo int32

// SourceRow is a stored source.
type SourceRow struct {
	No     SourceNo
	Tenant TenantNo
	posthaste.Source
	Secrets  SealedSecret // all that is secret about it, sealed together; No and ExpiresAt say nothing
	Rejected int          // deliveries rejected in a row, none taken between
}

// CreateSourceParams are CreateSource's.
type CreateSourceParams struct {
	Tenant  TenantNo
	Source  posthaste.Source // ID, SourceDefinition, UID, Metadata, CreatedAt
	Secrets SealedSecret     // Sealed, KeyID
}

// UpdateSourceParams are UpdateSource's.
type UpdateSourceParams struct {
	Tenant      TenantNo
	Source      posthaste.Source // ID, SourceDefinition, UID, Metadata, UpdatedAt
	Secrets     SealedSecret     // Sealed, KeyID
	FromVersion int
}

// DeleteSourceParams are DeleteSource's.
type DeleteSourceParams struct {
	Tenant      TenantNo
	ID          posthaste.ID
	FromVersion int // 0: whatever it is
}

// ListSourcesParams are ListSources'.
type ListSourcesParams struct {
	Tenant TenantNo
	Before SourceNo
	Limit  int
}

// AddRejectionParams are AddRejection's.
type AddRejectionParams struct {
	Source    SourceNo
	Rejection posthaste.Rejection
	Count     int // 1, and how many came before it and were not kept
	Keep      int
}

// ListRejectionsParams are ListRejections'.
type ListRejectionsParams struct {
	Source SourceNo
	Before posthaste.ID
	Limit  int
}

// MinSourceWindow is how long the idempotency keys of sources are kept at least,
// however short the window is: the providers that try longest go on for seven days.
const MinSourceWindow = 8 * 24 * time.Hour
