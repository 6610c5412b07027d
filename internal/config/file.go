package config

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
)

// DefaultFile is a configuration file that sets nothing: each setting stands in
// it as a comment, with what it does and its default. It is the documentation of
// the settings, and can be taken as a beginning.
//
//go:embed default.conf
var DefaultFile string

// maxFileBytes is far above any configuration, and below what it would hurt to
// read by mistake.
const maxFileBytes = 1 << 20

// readFile reads the configuration file into what the environment variables of
// the same names would hold. The form is that of Docker's --env-file and
// systemd's EnvironmentFile, so that one file serves all three: NAME=VALUE, one a
// line; a line that begins with # is a comment; quotes around a whole value are
// taken off. Nothing is expanded, and no line is quoted in a mistake: it may hold
// a secret.
func (r *reader) readFile(name string) map[string]string {
	info, err := os.Stat(name)
	if err == nil && info.Size() > maxFileBytes {
		err = fmt.Errorf("it has %d bytes, which is no configuration", info.Size())
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		r.wrong("config", "could not be read: %v", err)
		return nil
	}
	names := variables()
	values := map[string]string{}
	for i, line := range strings.Split(strings.TrimPrefix(string(raw), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, isPair := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), unquote(strings.TrimSpace(value))
		_, isTwice := values[key]
		switch {
		case !isPair:
			r.wrong("config", "has a line %d that is not NAME=VALUE, in %s", i+1, name)
		case !slices.Contains(names, key):
			r.wrong("config", "has a line %d that names no setting, in %s%s", i+1, name, DidYouMean(nearest(key, names)))
		case isTwice:
			r.wrong("config", "has a line %d that sets %s a second time, in %s", i+1, key, name)
		default:
			values[key] = value
		}
	}
	return values
}

func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// renamed are the former names of settings.
var renamed = map[string]string{"grace": "shutdown-timeout", "idle-sweep": "reconcile-interval", "metrics-open": "metrics-public"}

// Renamed returns the present name of a setting that had another name; "" if it had none.
func Renamed(flag string) string { return renamed[flag] }

// DidYouMean is the end of a sentence about a name that is none, "" where no other is near.
func DidYouMean(nearest string) string {
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// nearest returns the name that was probably meant: the one that is fewest edits
// away; "" where each is another word.
func nearest(key string, names []string) string {
	if flag := Renamed(strings.TrimLeft(strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, prefix)), "_", "-"), "-")); flag != "" {
		return envName(flag)
	}
	if flag := envName(strings.TrimLeft(strings.ToLower(key), "-")); slices.Contains(names, flag) {
		return flag // written as the flag is
	}
	const longest = 64
	if len(key) > longest {
		return ""
	}
	best, least := "", 4 // more edits than three make another word
	for _, name := range names {
		if d := distance(key, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to put in, take out or change that make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
