package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/config"
)

func TestCheckDatabase(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bare", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{
		"posthaste.db", "a b.sqlite", "./a:b", "/var/lib/x", "../x", "sub/x", "bare", "data/host=h.db", "x.SQLITE3", filepath.Join(t.TempDir(), "x@y:z"),
		"postgres://h/d", "postgresql://u:p%40@h:5432/d?sslmode=disable", "postgres://a,b/x", "postgres:///d?host=/var/run/postgresql",
	} {
		if err := config.CheckDatabase(value); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
	for value, want := range map[string]string{
		"host=db.internal user=ph dbname=posthaste":         "want a URL: postgres://ph@db.internal/posthaste",
		"host=h port=5433 user=ph password=s3cret dbname=d": "want a URL: postgres://ph:PASSWORD@h:5433/d",
		"dbname=d": "connection string of keywords",
		"Host=h;Username=ph;Password=s3cret;Database=d": "want a URL: postgres://ph:PASSWORD@h/d",
		"password='s3cret with space' host=h dbname=d":  "connection string of keywords",
		"Postgres://u:s3cret@h/d":                       "another spelling of postgres://",
		"POSTGRES://h/d":                                "another spelling of postgres://",
		"postgress://h/d":                               "another spelling of postgres://",
		"postgres:h/d":                                  "another spelling of postgres://",
		"jdbc:postgresql://h/d?password=s3cret":         "another spelling of postgres://",
		"postgresql+psycopg2://u:s3cret@h/d":            "another spelling of postgres://",
		"mysql://h/d":                                   `has the scheme "mysql"`,
		"redis://h":                                     `has the scheme "redis"`,
		"sqlite:a.db":                                   "want the path alone: a.db",
		"sqlite:///var/a.db":                            "want the path alone: /var/a.db",
		"sqlite3://a.db":                                "want the path alone: a.db",
		"file:a.db":                                     "want the path alone: a.db",
		"file:a.db?mode=memory":                         "with parameters",
		"sqlite://":                                     "without a file",
		"sqlite::memory:":                               "without a file",
		":memory:":                                      "in memory",
		"u:s3cret@h/d":                                  "address of a server",
		"localhost:5432":                                "address of a server",
		"[::1]:5432/d":                                  "address of a server",
		"a:b":                                           "or ./a:b for a new SQLite file",
		"posthaste":                                     "or ./posthaste for a new SQLite file",
		"db.internal":                                   "there is no such file",
		" a.db":                                         "begins or ends with a space",
		"a\nb.db":                                       "control character",
		"~/a.db":                                        "begins with ~",
		"$HOME/a.db":                                    "names a variable",
		"${DATABASE_URL}":                               "names a variable",
		"a.db?cache=shared":                             "parameters behind a question mark",
		".":                                             "is a folder",
		"./new/":                                        "is a folder",
		"postgres://u:s3cret@h:port/d":                  "is not a URL that can be read",
		"postgres://u:s3cret@h/d?sslmode=perhaps":                  "sslmode is invalid",
		"postgres://u:s3cret@h/d?connect_timeout=s3cret":           "PostgreSQL can be reached by",
		"postgres://u:s3cret@h/d?sslrootcert=/nowhere/to/be/found": "/nowhere/to/be/found",
	} {
		err := config.CheckDatabase(value)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %q in it", value, err, want)
		}
	}
}
