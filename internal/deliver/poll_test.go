package deliver_test

import (
	"testing"

	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// What systems without recv(2) do to decide whether an idle connection can be used
// again passes the tests of the system's own way.
func TestPortablePoll(t *testing.T) {
	defer deliver.UsePortablePoll()()
	for name, test := range map[string]func(*testing.T){
		"reused":     TestConnectionsAreReused,
		"reused TLS": TestTLSConnectionsAreReused,
		"stale":      TestStaleConnectionIsReplayed,
		"fresh":      TestFreshConnectionIsNotReplayed,
		"to the end": TestResponseToTheEndOfConnection,
		"one each":   TestOneConnectionForEachSender,
	} {
		t.Run(name, test)
	}
}
