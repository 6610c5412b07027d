package meta

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/posthaste-dev/posthaste"
)

// Meta sends no delivery id, and retries are cut into other batches than the
// first try, so each item needs a key of its own, made of what stays the same
// when Meta sends it again:
//
//	instagram/17841400000000001/message/aWdfZAG1
//	PLATFORM/ASSET/WHAT/PART…
//
// Each part is escaped, so that two items never share a key by the place of a
// slash. Ids of messages are unique for all that is known, but Meta does not say
// in which scope; hence the asset in front.

// maxAssetBytes leaves room behind the asset for a hash.
const maxAssetBytes = 128

// dedupKey joins the parts. Empty is "" if one of them is: then the item lacks
// what would tell it from others.
func dedupKey(platform Platform, asset string, parts ...string) string {
	var room [posthaste.MaxIdempotencyKeyBytes]byte
	key := keyPrefix(room[:0], platform, asset)
	prefix := len(key)
	for _, part := range parts {
		if part == "" {
			return ""
		}
		key = append(key, '/')
		key = appendPart(key, part)
	}
	if len(key) > posthaste.MaxIdempotencyKeyBytes {
		return hashedKey(key[:prefix], "long", key[prefix:])
	}
	return string(key)
}

// hashKey is the key of an item that has nothing better: the hash of its bytes.
func hashKey(platform Platform, asset string, item []byte) string {
	return hashedKey(keyPrefix(nil, platform, asset), "hash", item)
}

// hashedKey ends a key with the hash of what, and with how that came about.
func hashedKey(prefix []byte, how string, what []byte) string {
	sum := sha256.Sum256(what)
	return string(prefix) + "/" + how + "/" + hex.EncodeToString(sum[:])
}

func keyPrefix(dst []byte, platform Platform, asset string) []byte {
	dst = append(dst, platform...)
	dst = append(dst, '/')
	start := len(dst)
	if dst = appendPart(dst, asset); len(dst)-start > maxAssetBytes { // escapes make three bytes of one
		sum := sha256.Sum256([]byte(asset))
		dst = hex.AppendEncode(append(dst[:start], '~'), sum[:])
	}
	return dst
}

// appendPart writes what is not plain as %XX, as in a URL.
func appendPart(dst []byte, part string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(part) {
		switch c := part[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("._=+:-", c) >= 0:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}
