package postgres

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// statement is a named statement of the driver.
type statement struct {
	name, sql string
}

// statements lists every statement that the driver runs. Those on a day's own tables are shown for the given day, which must have its
// partitions. The DDL of migrations and partitions can't be prepared and is left out.
func statements(d day) []statement {
	leaf := func(sql string) string { return fmt.Sprintf(sql, d.suffix()) }
	return []statement{
		{"accept", acceptSQL},
		{"acceptCareful", acceptCarefulSQL},
		{"acceptOrdered", acceptOrderedSQL},
		{"orderLockOf", orderLockOfSQL},
		{"delivered", leaf(deliveredSQL)},
		{"existing", existingSQL},
		{"mine", mineSQL},
		{"claim", claimSQL},
		{"newer", newerSQL},
		{"load", loadSQL},
		{"claimFence", claimFenceSQL},
		{"claimEndpoint", claimEndpointSQL},
		{"claimFresh", claimFreshSQL},
		{"claimRun", claimRunSQL},
		{"orderLock", orderLockSQL},
		{"lockWait", lockWaitSQL},
		{"soonDurable", soonDurableSQL},
		{"makeGate", makeGateSQL},
		{"lockGate", lockGateSQL},
		{"keepGate", keepGateSQL},
		{"skip", skipSQL},
		{"gates", gatesSQL},
		{"shutGates", shutGatesSQL},
		{"changedGates", changedGatesSQL},
		{"head", headSQL},
		{"changes", changesSQL},
		{"describe", describeSQL},
		{"appendChange", appendChangeSQL},
		{"purgeChanges", purgeChangesSQL},
		{"purgeForeignChanges", purgeForeignChangesSQL},
		{"marked", markedSQL},
		{"mark", markSQL},
		{"createEndpoint", createEndpointSQL},
		{"updateEndpoint", updateEndpointSQL},
		{"deleteEndpoint", deleteEndpointSQL},
		{"endpoint", endpointSQL},
		{"rotateSecret", rotateSecretSQL},
		{"dropSecrets", dropSecretsSQL},
		{"dropGates", dropGatesSQL},
		{"endpointByUID", endpointByUIDSQL},
		{"endpointByNo", endpointByNoSQL},
		{"listEndpoints", listEndpointsSQL},
		{"listEveryEndpoint", listEveryEndpointSQL},
		{"listTenantsEndpoints", listTenantsEndpointsSQL},
		{"listEveryonesEndpoints", listEveryonesEndpointsSQL},
		{"livingRouting", livingRoutingSQL},
		{"changedRouting", changedRoutingSQL},
		{"routingSince", routingSinceSQL},
		{"purgeTombstones", purgeTombstonesSQL},
		{"definition", definitionSQL},
		{"delivery", deliverySQL},
		{"listAll", listAllSQL},
		{"listByTenant", listByTenantSQL},
		{"listByEvent", listByEventSQL},
		{"listByEndpoint", listByEndpointSQL},
		{"listDead", listDeadSQL},
		{"listDeadByEndpoint", listDeadByEndpointSQL},
		{"migrationLock", migrationLockSQL},
		{"schemaExists", schemaExistsSQL},
		{"schemaApplied", schemaAppliedSQL},
		{"addApplied", addAppliedSQL},
		{"replicasAlive", replicasAliveSQL},
		{"version", versionSQL},
		{"partitionLock", partitionLockSQL},
		{"partitionKnown", partitionKnownSQL},
		{"days", daysSQL},
		{"event", eventSQL},
		{"listEvents", listEventsSQL},
		{"listChildren", listChildrenSQL},
		{"attempts", attemptsSQL},
		{"horizonLock", horizonLockSQL},
		{"replay", replaySQL},
		{"whyNotReplayed", whyNotReplayedSQL},
		{"resendLock", resendLockSQL},
		{"resend", resendSQL},
		{"whyNotResent", whyNotResentSQL},
		{"self", selfSQL},
		{"endSession", endSessionSQL},
		{"lockName", lockNameSQL},
		{"identity", identitySQL},
		{"epochExists", epochExistsSQL},
		{"rewound", rewoundSQL},
		{"epoch", epochSQL},
		{"jumpEpoch", jumpEpochSQL},
		{"register", registerSQL},
		{"namesakes", namesakesSQL},
		{"beat", beatSQL},
		{"plainBeat", plainBeatSQL},
		{"lockEpoch", lockEpochSQL},
		{"raise", raiseSQL},
		{"pullBack", pullBackSQL},
		{"tryNow", tryNowSQL},
		{"owned", ownedSQL},
		{"ownedDue", ownedDueSQL},
		{"revoke", revokeSQL},
		{"silent", silentSQL},
		{"claimed", claimedSQL},
		{"born", bornSQL},
		{"freeDue", freeDueSQL},
		{"endReplica", endReplicaSQL},
		{"retireLock", retireLockSQL},
		{"retire", retireSQL},
		{"wake", wakeSQL},
		{"horizonHold", horizonHoldSQL},
		{"raiseHorizon", raiseHorizonSQL},
		{"lowerHorizon", lowerHorizonSQL},
		{"allowSeqScan", allowSeqScanSQL},
		{"mustStay", leaf(mustStaySQL)},
		{"purgeDead", leaf(purgeDeadSQL)},
		{"briefLock", briefLockSQL},
		{"keyPages", keyPagesSQL},
		{"purgeKeys", purgeKeysSQL},
		{"lockDue", lockDueSQL},
		{"lockDeliveries", lockDeliveriesSQL},
		{"settle", settleSQL},
		{"endLate", endLateSQL},
		{"stranded", strandedSQL},
		{"repairOwned", repairOwnedSQL},
		{"repairUnowned", repairUnownedSQL},
		{"createTenant", createTenantSQL},
		{"updateTenant", updateTenantSQL},
		{"lockEndpoints", lockEndpointsSQL},
		{"deleteTenant", deleteTenantSQL},
		{"deleteEndpoints", deleteEndpointsSQL},
		{"createSource", createSourceSQL},
		{"updateSource", updateSourceSQL},
		{"lockSources", lockSourcesSQL},
		{"deleteSource", deleteSourceSQL},
		{"deleteSources", deleteSourcesSQL},
		{"source", sourceSQL},
		{"sourceByUID", sourceByUIDSQL},
		{"listSources", listSourcesSQL},
		{"addRejection", addRejectionSQL},
		{"dropRejections", dropRejectionsSQL},
		{"listRejections", listRejectionsSQL},
		{"endRejections", endRejectionsSQL},
		{"eventOfKey", eventOfKeySQL},
		{"tenant", tenantSQL},
		{"tenantByUID", tenantByUIDSQL},
		{"tenantByNo", tenantByNoSQL},
		{"listTenants", listTenantsSQL},
		{"listEveryTenant", listEveryTenantSQL},
		{"dueEndpoints", dueEndpointsSQL},
		{"endDeleted", endDeletedSQL},
		{"endExpired", endExpiredSQL},
		{"setting", settingSQL},
		{"keepSetting", keepSettingSQL},
		{"verifyDeliveries", verifyDeliveriesSQL},
		{"verifyEvents", verifyEventsSQL},
	}
}

// notStatements are constants that end in SQL and can't be prepared: fragments,
// and commands that PostgreSQL doesn't plan.
var notStatements = map[string]bool{
	"clockSQL": true, "fenceSQL": true, "schemaTableSQL": true, "listenSQL": true,
}

// TestEveryStatementPrepares lets PostgreSQL parse each statement against the
// schema: a wrong column or type fails here and not in a rare branch.
func TestEveryStatementPrepares(t *testing.T) {
	db, _ := open(t)
	conn := session(t, db)
	for _, s := range statements(dayOf(time.Now())) {
		if _, err := conn.Prepare(t.Context(), s.name, s.sql); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// TestStatementsAreComplete finds a constant that was added and not listed.
func TestStatementsAreComplete(t *testing.T) {
	listed := map[string]bool{}
	for _, s := range statements(dayOf(time.Now())) {
		listed[s.name+"SQL"] = true
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for _, name := range spec.Names {
					if strings.HasSuffix(name.Name, "SQL") && !listed[name.Name] && !notStatements[name.Name] {
						t.Errorf("%s: %s is not in the list of statements", file.Name(), name.Name)
					}
				}
			}
			return true
		})
	}
}

// session returns a connection of its own with the settings of the hot pool.
func session(t *testing.T, db *DB) *pgx.Conn {
	t.Helper()
	config := db.hot.conns.Config().ConnConfig
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	registerColumns(conn)
	t.Cleanup(func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Logf("close a session: %v", err)
		}
	})
	return conn
}
