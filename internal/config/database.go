package config

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste/internal/pgconnect"
)

var (
	// scheme matches the beginning of a URL. One letter is a drive of Windows.
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)
	// keyword matches a parameter of a connection string, as libpq, ADO.NET and JDBC write it.
	keyword = regexp.MustCompile(`(?i)(^|[\s;])(host|hostaddr|port|dbname|database|user|user id|username|uid|password|pwd|passfile|server|data source|service|sslmode)\s*=`)
	// hostAndPort matches an address of a server without a scheme.
	hostAndPort = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[0-9]+(/|$)`)
)

// sqliteExtensions are the extensions by which a new SQLite file is recognised.
var sqliteExtensions = []string{".db", ".db3", ".sqlite", ".sqlite3", ".s3db"}

// sqliteSchemes name SQLite in URLs of other programs.
var sqliteSchemes = []string{"sqlite", "sqlite2", "sqlite3", "sqlitecloud", "file"}

// postgresSchemes name PostgreSQL in URLs of other programs.
var postgresSchemes = []string{
	"postgres", "postgresql", "psql", "pg", "pgx", "pgx5", "pgsql", "postgis", "jdbc", "postgres+asyncpg", "postgresql+psycopg",
	"postgresql+psycopg2", "postgresql+asyncpg", "cockroachdb", "cockroach",
}

const wantURL = pgconnect.URLForm

// CheckDatabase reports what is wrong with the name of a database: a postgres:// URL, or
// the path of an SQLite file. The error says what was probably meant. It never quotes a
// value that may hold a password.
func CheckDatabase(value string) error {
	if isPostgres(value) {
		return pgconnect.CheckURL(value)
	}
	what := notAFile(value)
	if what == "" {
		return nil
	}
	return errors.New(what)
}

func isPostgres(value string) bool {
	return strings.HasPrefix(value, "postgres://") || strings.HasPrefix(value, "postgresql://")
}

// notAFile returns why a value is not the path of an SQLite file; "" if it may be one.
func notAFile(value string) string {
	name, rest, hasScheme := cutScheme(value)
	switch {
	case strings.TrimSpace(value) != value:
		return "begins or ends with a space"
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "has a control character"
	case isPath(value):
		return notAPath(value)
	case value == ":memory:":
		return "names a database in memory, which would lose every event; want the path of a file"
	case keyword.MatchString(value):
		return "is a connection string of keywords; want a URL: " + fromKeywords(value)
	case hasScheme && (isKnown(name) || strings.HasPrefix(rest, "//")):
		return ofScheme(name, rest)
	case hostAndPort.MatchString(value) || strings.Contains(value, "@"):
		return "looks like the address of a server; want " + wantURL + ", or ./ before the path of an SQLite file"
	}
	return notAPath(value)
}

// cutScheme takes the scheme off a URL.
func cutScheme(value string) (name, rest string, ok bool) {
	name = scheme.FindString(value)
	return strings.ToLower(strings.TrimSuffix(name, ":")), value[len(name):], name != ""
}

// isPath reports whether a value can be nothing but a path.
func isPath(value string) bool {
	return strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || filepath.IsAbs(value)
}

// ofScheme says what was probably meant by a URL that is not understood. rest is what
// stands behind the colon.
func ofScheme(name, rest string) string {
	path, _, hasParameters := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	switch {
	case slices.Contains(sqliteSchemes, name) && hasParameters:
		return "is a URL of SQLite with parameters; want the path alone, without parameters"
	case slices.Contains(sqliteSchemes, name) && path != "" && path != ":memory:":
		return "is a URL of SQLite; want the path alone: " + path
	case slices.Contains(sqliteSchemes, name):
		return "is a URL of SQLite without a file; want a path, such as posthaste.db"
	case isKnown(name):
		return "begins with another spelling of postgres://; want " + wantURL
	}
	return "has the scheme " + strconv.Quote(name) + "; Posthaste keeps its data in PostgreSQL (" + wantURL + ") or in an SQLite file (a path)"
}

// isKnown reports whether a scheme names PostgreSQL or SQLite.
func isKnown(name string) bool {
	return slices.Contains(sqliteSchemes, name) || slices.Contains(postgresSchemes, name) ||
		distance(name, "postgres") <= 2 || distance(name, "postgresql") <= 2
}

// fromKeywords writes the URL that a connection string of keywords means, with the
// password left out. A string that can't be taken apart gives the general form.
func fromKeywords(value string) string {
	parts := map[string]string{}
	for _, pair := range strings.FieldsFunc(value, func(c rune) bool { return c == ';' || c == ' ' || c == '\t' }) {
		key, text, isPair := strings.Cut(pair, "=")
		if !isPair || strings.ContainsAny(text, `'"\`) {
			return wantURL
		}
		parts[strings.ToLower(key)] = text
	}
	first := func(names ...string) string {
		for _, name := range names {
			if parts[name] != "" {
				return parts[name]
			}
		}
		return ""
	}
	u := url.URL{Scheme: "postgres", Host: first("host", "hostaddr", "server"), Path: "/" + first("dbname", "database")}
	if u.Host == "" || u.Path == "/" || strings.Contains(u.Host, "/") {
		return wantURL
	}
	if port := first("port"); port != "" {
		u.Host += ":" + port
	}
	user := first("user", "username", "uid")
	if user == "" {
		return u.String()
	}
	u.User = url.User(user)
	if first("password", "pwd") != "" {
		u.User = url.UserPassword(user, "PASSWORD")
	}
	return u.String()
}

// notAPath returns why a path can't be that of an SQLite file.
func notAPath(value string) string {
	info, err := os.Stat(value)
	base := filepath.Base(value)
	switch {
	case err == nil && info.IsDir(), strings.HasSuffix(value, "/"):
		return "is a folder; want the path of an SQLite file in it, such as " + filepath.Join(value, "posthaste.db")
	case err == nil:
		return ""
	case strings.HasPrefix(value, "~"):
		return "begins with ~, which the shell did not replace; want the whole path"
	case strings.HasPrefix(value, "$"):
		return "names a variable that nothing replaced; want its value"
	case strings.Contains(base, "?") && strings.Contains(base, "="):
		return "has parameters behind a question mark; want the path of an SQLite file alone"
	case !strings.ContainsAny(value, `/\`) && !slices.Contains(sqliteExtensions, strings.ToLower(filepath.Ext(value))):
		return "is " + strconv.Quote(value) + ", and there is no such file; want " + wantURL + ", or ./" + value + " for a new SQLite file of that name"
	}
	return ""
}
