package config

import (
	"os"
	"strings"
)

// Source is where a value comes from.
type Source string

// The sources; an earlier one wins.
const (
	FromFlag    Source = "flag"
	FromEnv     Source = "env"
	FromFile    Source = "file"
	FromDefault Source = "default"
)

// Value is the effective value of a setting.
type Value struct {
	Setting string `json:"setting"`
	// Value is as it was written, secrets and passwords masked; "" where nothing
	// is set and the default is nothing.
	Value  string `json:"value"`
	Source Source `json:"source"`
	// From names the flag or the variable; with source file, the configuration
	// file is where that variable stands. "" for a default.
	From string `json:"from"`

	text string // unmasked
}

// layer is a source of variables: the environment, or the configuration file.
type layer struct {
	source Source
	lookup func(name string) (string, bool)
}

// useFile adds the configuration file as the last layer, if one is named.
func (r *reader) useFile() {
	name := r.flags["config"]
	for _, l := range r.layers {
		if name == "" {
			name, _ = l.lookup(envName("config"))
		}
	}
	if name == "" {
		return
	}
	values := r.readFile(name)
	r.layers = append(r.layers, layer{FromFile, func(n string) (string, bool) {
		v, ok := values[n]
		return v, ok
	}})
}

// resolve finds the effective value of each setting.
func (r *reader) resolve(settings []Setting) {
	for _, s := range settings {
		v := Value{Source: FromDefault, text: s.Default}
		if text := r.flags[s.Name]; text != "" {
			v = Value{Source: FromFlag, From: "--" + s.Name, text: text}
		} else {
			for _, l := range r.layers {
				if text, from := r.in(l, s); from != "" {
					if s.isList {
						text = strings.Join(strings.Fields(text), listSeparator)
					}
					v = Value{Source: l.source, From: from, text: text}
					break
				}
			}
		}
		v.Setting, v.Value = s.Name, s.show(v.text)
		r.values[s.Name] = v
	}
}

// in looks a setting up in one layer: its own variable, the file that its
// variable with _FILE names, or what stands in for it. Empty is as if not set:
// that is how a deployment takes a variable back. from is "" if nothing is set.
func (r *reader) in(l layer, s Setting) (text, from string) {
	own, _ := l.lookup(s.Env)
	if s.HasFile {
		name, _ := l.lookup(s.Env + "_FILE")
		switch {
		case name != "" && own != "":
			// Which one is old cannot be told, and a guess would sign with it.
			r.wrong(s.Name, "is set twice: by %s and by %s_FILE", s.Env, s.Env)
		case name != "":
			return r.fromFile(s, name), s.Env + "_FILE"
		}
	}
	if own != "" {
		return own, s.Env
	}
	if s.StandIn != "" {
		if text, _ := l.lookup(s.StandIn); text != "" {
			return text, s.StandIn
		}
	}
	return "", ""
}

func (r *reader) fromFile(s Setting, name string) string {
	raw, err := os.ReadFile(name)
	if err != nil {
		r.wrong(s.Name, "could not be read from %s_FILE: %v", s.Env, err)
		return ""
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		r.wrong(s.Name, "is empty in the file that %s_FILE names", s.Env)
	}
	return text
}

// Effective returns the value of each setting that Parse reads, and where it
// comes from. Its error is Parse's; the values are good to be shown all the same.
func (f Flags) Effective() ([]Value, error) {
	c, r := f.read(os.LookupEnv)
	var values []Value
	for _, s := range Settings() {
		v := r.values[s.Name]
		if v.Source == FromDefault {
			v.Value = s.show(derived(s.Name, c, v.text))
		}
		values = append(values, v)
	}
	if len(r.mistakes) > 0 {
		return values, r.mistakes
	}
	return values, nil
}

// derived returns a default with those that depend on other settings.
func derived(name string, c Config, text string) string {
	switch name {
	case "db-direct":
		if c.Database.IsPostgres() {
			return c.Database.Name
		}
	case "idempotency-window":
		return hours(c.IdempotencyWindow)
	case "replica":
		return c.Replica
	}
	return text
}
