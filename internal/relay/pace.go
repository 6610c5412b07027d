package relay

import "time"

const (
	// leastRows is as few as a batch is made: a commit of fewer costs more than it spares.
	leastRows = 64
	// spillRest is for how long a relay leaves rows where they are once lanes are full. It is
	// what an endpoint needs for some dozens of attempts, and so short that endpoints without
	// room slow the others down to some ten thousand rows a second at worst.
	spillRest = 4 * time.Millisecond
)

// pace is how many rows are claimed at once. Deliveries that find no room in their lanes have
// to be found in the database again, which costs it as much as accepting them did: while lanes
// are full, rows had better wait in the outbox.
type pace struct {
	most, now int
	spilling  bool
}

func (p *pace) rows() int { return p.now }

// note learns from a batch of rows, of whose deliveries some found no room.
func (p *pace) note(rows, spilled int) {
	p.spilling = spilled > 0
	switch {
	case 4*spilled > rows:
		p.now = max(p.now/2, min(leastRows, p.most))
	case spilled == 0:
		p.now = min(p.now+leastRows, p.most)
	}
}

// rest is how long to wait before the next batch.
func (p *pace) rest() time.Duration {
	if p.spilling {
		return spillRest
	}
	return 0
}
