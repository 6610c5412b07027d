// Package storetest is the conformance suite of the storage contract: what it
// asks of a driver is what internal/store promises, case by case, in files of
// the same names. Both drivers run it; a new promise comes with its case.
//
// Every case gets a database of its own and ends with Verify on it, so that a
// case about one verb also proves that the verb left no violation behind.
package storetest

import (
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Database is a fresh, migrated database together with the rude acts that no
// method of the contract performs. A driver fills every field; what it opens,
// it closes with t.Cleanup.
type Database struct {
	// Store is the handle that most cases use.
	Store store.Store

	// Another opens a second handle on the same database with connections of its
	// own, as another replica has it. Where SingleReplica is set it returns Store.
	Another func(t *testing.T) store.Store

	// SingleReplica says that one process owns the database, and that Register
	// therefore ends every other epoch. Cases in which two epochs live at once are
	// then left out by design: the contract says that they cannot happen there.
	SingleReplica bool

	// Wipe deletes every row of one of the disposable tables: "changes", "due", "dead",
	// "replicas" or "gates".
	Wipe func(t *testing.T, table string)

	// Exec runs a statement that both databases understand.
	Exec func(t *testing.T, sql string)

	// Refuse makes the database refuse events of a type, with a trigger.
	Refuse func(t *testing.T, eventType string)

	// AgeBeat sets beat_at of an epoch's row back.
	AgeBeat func(t *testing.T, epoch store.Epoch, by time.Duration)

	// StrayDue inserts an unowned row into due that no verb made: a stale hint.
	StrayDue func(t *testing.T, key store.DueKey)

	// DueRows counts the rows of due, owned or not, by delivery.
	DueRows func(t *testing.T) map[posthaste.ID]int

	// Break damages the rows of one delivery.
	Break func(t *testing.T, damage Damage, delivery posthaste.ID)
}

// Damage is a violation of the promise that a driver can plant.
type Damage int

// The damages.
const (
	AttemptLost  Damage = iota + 1 // the record of attempt 1 is deleted, and nothing else
	HistoryLost                    // every attempt record is deleted, and attempts (the count) becomes 0
	ReasonLost                     // the reason becomes 0
	DeliveryLost                   // the row in deliveries and its rows in due and dead are deleted
	DueLost                        // its rows in due are deleted, and nothing else
)

// testCase is one promise, or one way in which it was once broken.
type testCase struct {
	name string
	run  func(t *testing.T, f *fixture)
	// twoEpochs: needs two epochs that live at the same time.
	twoEpochs bool
	// damaged: the case ends with a database that is meant to fail Verify.
	damaged bool
}

// Run holds a driver to the contract. open is called once for each case, and
// once to ask what the driver is.
func Run(t *testing.T, open func(t *testing.T) Database) {
	singleReplica := open(t).SingleReplica
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Replica", replicaCases},
		{"Rewind", rewindCases},
		{"Accept", acceptCases},
		{"AcceptRace", acceptRaceCases},
		{"Claim", claimCases},
		{"Settle", settleCases},
		{"Systemic", systemicCases},
		{"Gate", gateCases},
		{"Through", throughCases},
		{"Order", orderCases},
		{"Run", runCases},
		{"Skip", skipCases},
		{"Late", lateCases},
		{"Bytes", bytesCases},
		{"Revoke", revokeCases},
		{"Repair", repairCases},
		{"Upkeep", upkeepCases},
		{"Stranded", strandedCases},
		{"Retain", retainCases},
		{"Tenant", tenantCases},
		{"Endpoint", endpointCases},
		{"Routing", routingCases},
		{"EveryTenant", everyTenantCases},
		{"Secret", secretCases},
		{"Source", sourceCases},
		{"Read", readCases},
		{"Changes", changesCases},
		{"Verify", verifyCases},
		{"Model", modelCases},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				if c.twoEpochs && singleReplica {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					f := newFixture(t, open(t))
					if !c.damaged {
						t.Cleanup(func() { f.wantClean(t); f.wantTold(t) })
					}
					c.run(t, f)
				})
			}
		})
	}
}
