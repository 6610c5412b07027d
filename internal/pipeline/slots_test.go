package pipeline

import (
	"testing"

	"github.com/posthaste-dev/posthaste"
)

// Whoever asks for ids that no source has, as many as he likes, gives nobody more
// rejections a second.
func TestMadeUpSourcesPushOutNoTally(t *testing.T) {
	var k knownSources
	var minter posthaste.Minter
	id := minter.Mint(testNow)
	mine := k.slot(id)
	mine.known, mine.read = &KnownSource{}, true
	for range 3 * maxKnownSources {
		k.slot(minter.Mint(testNow)).read = true
		if len(k.byID) > maxKnownSources {
			t.Fatalf("%d slots", len(k.byID))
		}
	}
	if k.slot(id) != mine {
		t.Error("the slot of a source was forgotten")
	}
}
