package inbound

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Limits of a configuration.
const (
	MaxSecrets      = 16
	MaxSecretBytes  = 8 << 10 // room for a public key in PEM
	MaxSettingBytes = 2 << 10
)

// The bounds of the setting "tolerance". The upper one is the longest time for
// which any provider tries again.
const (
	minTolerance = time.Second
	maxTolerance = 7 * 24 * time.Hour
)

// settings are a provider's settings with their defaults.
type settings map[string]string

// duration returns a setting that was checked to be one; 0 for none.
func (s settings) duration(name string) time.Duration {
	d, err := time.ParseDuration(s[name])
	if err != nil {
		return 0
	}
	return d
}

// list returns the parts of a setting that is a list with commas.
func (s settings) list(name string) (parts []string) {
	for part := range strings.SplitSeq(s[name], ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// complete adds the defaults.
func (p *provider) complete(given map[string]string) settings {
	all := settings{}
	for _, s := range p.Settings {
		all[s.Name] = s.Default
	}
	for name, value := range given {
		if value != "" {
			all[name] = value
		}
	}
	return all
}

// check finds the provider and returns every problem of its configuration.
func check(cfg Config) (*provider, error) {
	p := find(cfg.Provider)
	if p == nil {
		problem := posthaste.Problem{Field: "provider", Message: "is not a provider that is known", Hint: "one of: " + strings.Join(providerNames(), ", ")}
		if cfg.Provider == "" {
			problem.Message = "is missing"
		}
		return nil, posthaste.Invalid([]posthaste.Problem{problem})
	}
	problems := append(p.checkSecrets(cfg.Secrets), p.checkSettings(cfg.Settings)...)
	if len(problems) == 0 && p.together != nil {
		problems = p.together(cfg.Secrets, p.complete(cfg.Settings))
	}
	return p, posthaste.Invalid(problems)
}

func providerNames() (names []string) {
	for _, p := range Providers() {
		names = append(names, p.Name)
	}
	return names
}

func (p *provider) checkSecrets(secrets []string) (problems []posthaste.Problem) {
	switch {
	case p.Secret == "" && len(secrets) > 0:
		return []posthaste.Problem{{Field: "secrets", Message: "has a secret that " + p.Title + " has no use for", Hint: "leave it out"}}
	case p.NeedSecret && len(secrets) == 0:
		return []posthaste.Problem{{Field: "secrets", Message: "is empty", Hint: p.Secret}}
	case len(secrets) > MaxSecrets:
		return []posthaste.Problem{{Field: "secrets", Message: fmt.Sprintf("has more than %d secrets", MaxSecrets), Hint: "remove those that are no longer used"}}
	}
	for i, secret := range secrets {
		if message := p.secretProblem(secret); message != "" {
			problems = append(problems, posthaste.Problem{Field: fmt.Sprintf("secrets[%d]", i), Message: message, Hint: p.Secret})
		}
	}
	return problems
}

// secretProblem says what is wrong with a secret, without a part of it.
func (p *provider) secretProblem(secret string) string {
	switch {
	case secret == "":
		return "is empty"
	case len(secret) > MaxSecretBytes:
		return fmt.Sprintf("is longer than %d bytes", MaxSecretBytes)
	case strings.TrimSpace(secret) != secret && !strings.HasPrefix(secret, "-----BEGIN"):
		return "has white space before or after it"
	}
	if message := p.mixedUpWith(secret); message != "" {
		return message
	}
	if p.checkKey != nil {
		return p.checkKey(secret)
	}
	message := ""
	for _, s := range p.schemes {
		_, err := s.key(secret)
		if err == nil {
			return ""
		}
		if message == "" {
			message = err.Error()
		}
	}
	return message
}

func (p *provider) checkSettings(given map[string]string) (problems []posthaste.Problem) {
	for _, s := range p.Settings {
		field, value := "settings."+s.Name, given[s.Name]
		switch {
		case value == "" && s.Required:
			problems = append(problems, posthaste.Problem{Field: field, Message: "is missing", Hint: s.Meaning})
		case value == "":
		case len(value) > MaxSettingBytes:
			problems = append(problems, posthaste.Problem{Field: field, Message: fmt.Sprintf("is longer than %d bytes", MaxSettingBytes), Hint: s.Meaning})
		case s.Values != nil && !slices.Contains(s.Values, value):
			problems = append(problems, posthaste.Problem{Field: field, Message: "is none of the values that it may have", Hint: "one of: " + strings.Join(s.Values, ", ")})
		case s.problem != nil:
			if message := s.problem(value); message != "" {
				problems = append(problems, posthaste.Problem{Field: field, Message: message, Hint: s.Meaning})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(p.Settings, func(s Setting) bool { return s.Name == name }) {
			problems = append(problems, posthaste.Problem{Field: "settings." + name, Message: "is not a setting of " + p.Title, Hint: p.settingNames()})
		}
	}
	return problems
}

func (p *provider) settingNames() string {
	var names []string
	for _, s := range p.Settings {
		names = append(names, s.Name)
	}
	if names == nil {
		return "it has no settings"
	}
	return "its settings: " + strings.Join(names, ", ")
}

func toleranceProblem(value string) string {
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return `is not a duration such as "5m"`
	case d < minTolerance || d > maxTolerance:
		return fmt.Sprintf("is not between %s and %s", minTolerance, maxTolerance)
	}
	return ""
}

func publicURLProblem(value string) string {
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return `is not a URL such as "https://hooks.example.com/in/src_…"`
	case u.User != nil:
		return "has a user name or password in it"
	}
	return ""
}

func headerNameProblem(value string) string {
	for i := range len(value) {
		if c := value[i]; !isAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return "is not the name of a header"
		}
	}
	return ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
