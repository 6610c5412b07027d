package postgres

import (
	"context"
	"errors"
)

// pools are the connections of a replica, a pool for each kind of work. A pool is
// small; what waits for one of its connections waits only for work of its own kind.
// So a slow link, a long list or a chore delays neither the heartbeat nor a commit.
type pools struct {
	vital   *pool // heartbeats and settling: without them others take this replica for dead
	hot     *pool // accepts
	relays  *pool // transactions that bring outbox rows and their events into one commit
	claims  *pool // claims of due work
	gates   *pool // claims through gates, and changes of gates, which may wait for a lock
	loads   *pool // payloads, which may be large
	lookups *pool // routing, tenants, keys, partitions: an event waits for them
	chores  *pool // looks, repairs, reclaims, retention
	side    *pool // reads and changes of the API, and the stream
}

// poolShare says how many connections a pool gets.
type poolShare struct {
	pool     func(*pools) **pool
	settings settings
	least    int // of the smallest MaxConns
	usual    int // of the default MaxConns
}

var poolShares = []poolShare{
	{func(p *pools) **pool { return &p.vital }, hotSettings, 2, 4},
	{func(p *pools) **pool { return &p.hot }, hotSettings, 2, 3},
	{func(p *pools) **pool { return &p.relays }, hotSettings, 1, 2},
	{func(p *pools) **pool { return &p.claims }, hotSettings, 1, 2},
	{func(p *pools) **pool { return &p.gates }, hotSettings, 1, 3},
	{func(p *pools) **pool { return &p.loads }, loadSettings, 1, 2},
	{func(p *pools) **pool { return &p.lookups }, sideSettings, 1, 2},
	{func(p *pools) **pool { return &p.chores }, sideSettings, 1, 2},
	{func(p *pools) **pool { return &p.side }, sideSettings, 2, 4},
}

// share divides n connections among the pools: to each its least, the rest in
// proportion to what is usual. n is the sum of all leasts or more.
func share(n int) []int {
	out := make([]int, len(poolShares))
	for i, s := range poolShares {
		out[i] = s.least
		n -= s.least
	}
	for ; n > 0; n-- {
		next := 0
		for i, s := range poolShares {
			if out[i]*poolShares[next].usual < out[next]*s.usual {
				next = i
			}
		}
		out[next]++
	}
	return out
}

// openPools opens all pools. They connect when they are used.
func openPools(ctx context.Context, c Config, maxConns int) (p pools, err error) {
	for i, n := range share(maxConns) {
		s := poolShares[i]
		opened, err := newPool(ctx, c, n, s.settings)
		if err != nil {
			return p, errors.Join(err, p.Close())
		}
		*s.pool(&p) = opened
	}
	return p, nil
}

// all lists the pools that are open.
func (p *pools) all() (out []*pool) {
	for _, s := range poolShares {
		if opened := *s.pool(p); opened != nil {
			out = append(out, opened)
		}
	}
	return out
}

// Close closes the connections. It waits for those in use, and returns nil.
func (p *pools) Close() error {
	for _, opened := range p.all() {
		opened.Close()
	}
	return nil
}
