//go:build !unix

package deliver

import "math"

// openFileLimit: Windows has no such limit.
func openFileLimit() int { return math.MaxInt }
