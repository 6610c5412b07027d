package httpapi

import (
	"maps"
	"slices"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/inbound"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
)

// splitSecrets takes the settings that are secret out of a definition, as the
// provider has them, to be sealed with the secrets. One that is the mask stays
// what it is at present.
func splitSecrets(d posthaste.SourceDefinition, secrets []string, present pipeline.SourceSecrets) (posthaste.SourceDefinition, pipeline.SourceSecrets, []posthaste.Problem) {
	out := pipeline.SourceSecrets{Secrets: secrets}
	var problems []posthaste.Problem
	d.Settings = maps.Clone(d.Settings)
	for name, value := range d.Settings {
		kept, known := present.Settings[name]
		switch {
		case value == mask && known:
			value = kept
		case value == mask:
			problems = append(problems, posthaste.Problem{
				Field: "settings." + name, Message: "is what stands in the place of a secret", Hint: "give the setting itself",
			})
			continue
		case !isSecretSetting(d.Provider, name):
			continue
		}
		if isSecretSetting(d.Provider, name) {
			if out.Settings == nil {
				out.Settings = map[string]string{}
			}
			out.Settings[name] = value
			delete(d.Settings, name)
		} else {
			d.Settings[name] = value
		}
	}
	return d, out, problems
}

func isSecretSetting(provider, setting string) bool {
	for _, p := range inbound.Providers() {
		if p.Name == provider {
			return slices.ContainsFunc(p.Settings, func(s inbound.Setting) bool { return s.Name == setting && s.IsSecret })
		}
	}
	return false
}

// checkProvider asks the provider's own rules, which know the form of its secrets.
func checkProvider(d posthaste.SourceDefinition, secret pipeline.SourceSecrets) error {
	settings := map[string]string{}
	maps.Copy(settings, d.Settings)
	maps.Copy(settings, secret.Settings)
	_, err := inbound.New(inbound.Config{Provider: d.Provider, Secrets: secret.Secrets, Settings: settings}, inbound.Options{})
	return err
}
