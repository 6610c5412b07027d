package cli

import (
	"fmt"
	"runtime/debug"
)

// version is set when a release is built: -ldflags "-X …/internal/cli.version=1.2.3".
var version string

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version.
func (c *versionCommand) Run(s Streams) error {
	if c.JSON {
		return printJSON(s.Stdout, map[string]string{"version": programVersion()})
	}
	_, err := fmt.Fprintln(s.Stdout, "posthaste", programVersion())
	return err
}

// programVersion is the release, else what Go knows of the build: the module's
// version where it was installed as one, or the commit it was built from.
func programVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changed := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "+changed"
		}
	}
	if commit == "" {
		return "devel"
	}
	return "devel-" + commit[:min(12, len(commit))] + changed
}
