package outbox

import _ "embed" // for the schemas

// SchemaVersion is the version of both schemas.
const SchemaVersion = 1

//go:embed schema/postgres.sql
var postgresSQL string

//go:embed schema/sqlite.sql
var sqliteSQL string

// PostgresSQL returns the SQL that makes the outbox in a PostgreSQL database: the schema
// posthaste with its tables and functions, and the roles posthaste_outbox_app and
// posthaste_outbox_relay with their grants. It is several statements, for one
// transaction; on a database that has them it changes nothing.
func PostgresSQL() string { return postgresSQL }

// SQLiteSQL returns the SQL that makes the outbox in an SQLite database, as PostgresSQL
// does.
func SQLiteSQL() string { return sqliteSQL }
