package config

import (
	"regexp"
	"slices"
	"strings"
)

const (
	prefix     = "POSTHASTE_"
	testPrefix = "POSTHASTE_TEST_" // of this project's own tests
)

// variables returns the names that a setting can have in the environment and in the
// configuration file.
func variables() (names []string) {
	for _, s := range Settings() {
		names = append(names, s.Env)
		if s.StandIn != "" {
			names = append(names, s.StandIn)
		}
		if s.HasFile {
			names = append(names, s.Env+"_FILE")
		}
	}
	return names
}

// otherVariables are those with our prefix that are no setting of a server: of
// commands that talk to one, which may well be set where a server is started.
func otherVariables() []string {
	return []string{
		envName("config"), "POSTHASTE_SERVER", "POSTHASTE_KEY", "POSTHASTE_KEY_FILE", "POSTHASTE_TENANT", "POSTHASTE_NEW_SECRET",
		"POSTHASTE_RECEIVER_SECRET", "POSTHASTE_SOURCE_SECRET", "POSTHASTE_OUTBOX_DATABASE",
	}
}

// ofKubernetes are the variables that it sets for each service, in the form that it
// took over from Docker's links: one called posthaste has our prefix.
var ofKubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// UnknownVariable is a variable of the environment that has our prefix, and that
// nothing reads.
type UnknownVariable struct {
	Name    string
	Nearest string // the name that was probably meant; "" if none is near
}

// UnknownVariables looks through an environment, in the form of [os.Environ], for
// names that are misspelled. An empty variable counts as not set. Variables that
// Kubernetes sets for a service called posthaste are left out.
func UnknownVariables(environ []string) (unknown []UnknownVariable) {
	names := append(variables(), otherVariables()...)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		isLink := strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, testPrefix) || value == "" || slices.Contains(names, name) || isLink || ofKubernetes.MatchString(name) {
			continue
		}
		unknown = append(unknown, UnknownVariable{Name: name, Nearest: nearest(name, names)})
	}
	slices.SortFunc(unknown, func(a, b UnknownVariable) int { return strings.Compare(a.Name, b.Name) })
	return unknown
}
