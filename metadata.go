package posthaste

import (
	"fmt"
	"maps"
	"slices"
)

// UIDPrefix begins what stands in a path where an object is addressed by its
// owner's own id, as in /v1/endpoints/uid:MINE. No id and no tenant's name has a
// colon in it, so the two can't be taken for each other.
const UIDPrefix = "uid:"

// Limits of what an owner writes on an object for himself, in bytes.
const (
	MaxUIDBytes           = 128
	MaxMetadataEntries    = 50
	MaxMetadataKeyBytes   = 64
	MaxMetadataValueBytes = 512
)

const uidHint = "1 to 128 of a-z A-Z 0-9 . _ - :"

// ValidateUID returns what is wrong with an owner's own id of an object, or nil.
// Its characters are those that can stand in a URL's path as they are (RFC 3986,
// section 3.3), without the slash, so that nobody has to escape it.
func ValidateUID(field, uid string) []Problem {
	switch {
	case uid == "":
		return []Problem{{Field: field, Message: "is empty", Hint: uidHint}}
	case len(uid) > MaxUIDBytes:
		return []Problem{{Field: field, Message: fmt.Sprintf("is longer than %d bytes", MaxUIDBytes), Hint: uidHint}}
	}
	for i := range len(uid) {
		switch c := uid[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-', c == ':':
		default:
			return []Problem{{Field: field, Message: "has a character that a uid cannot have", Hint: uidHint}}
		}
	}
	return nil
}

// ValidateMetadata returns everything that is wrong with the metadata of an object.
func ValidateMetadata(field string, metadata map[string]string) (problems []Problem) {
	if n := len(metadata); n > MaxMetadataEntries {
		return []Problem{{Field: field, Message: fmt.Sprintf("has %d entries", n), Hint: fmt.Sprintf("%d at most", MaxMetadataEntries)}}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		path := field + "." + truncate(key)
		if key == "" || len(key) > MaxMetadataKeyBytes || !isText(key) {
			problems = append(problems, Problem{
				Field: path, Message: "is not a name for metadata", Hint: fmt.Sprintf("1 to %d bytes of text", MaxMetadataKeyBytes),
			})
		}
		if value := metadata[key]; len(value) > MaxMetadataValueBytes || !isText(value) {
			problems = append(problems, Problem{
				Field: path, Message: "has a value that is too long or not text", Hint: fmt.Sprintf("%d bytes of text at most", MaxMetadataValueBytes),
			})
		}
	}
	return problems
}
