package cli

import (
	"io"

	"github.com/posthaste-dev/posthaste/internal/config"
)

type configCommand struct {
	Print   configPrint   `cmd:"" help:"Print the settings that serve would use with these flags, and their origin. Secrets are masked."`
	Default configDefault `cmd:"" help:"Print a configuration file with every setting explained and commented out."`
}

type configPrint struct {
	config.Flags
	JSON bool `name:"json" help:"Print JSON, one object a line."`
}

// Run prints the effective configuration, also one that has mistakes: what is in
// force helps to find them.
func (c *configPrint) Run(s Streams) error {
	values, mistakes := c.Effective()
	if c.JSON {
		for _, v := range values {
			if err := printJSON(s.Stdout, v); err != nil {
				return err
			}
		}
		return mistakes
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	for _, v := range values {
		from := string(v.Source)
		if v.From != "" {
			from += " " + v.From
		}
		rows = append(rows, []string{v.Setting, orDash(v.Value), from})
	}
	if err := columns(s.Stdout, rows); err != nil {
		return err
	}
	return mistakes
}

type configDefault struct{}

// Run prints the default file.
func (configDefault) Run(s Streams) error {
	_, err := io.WriteString(s.Stdout, config.DefaultFile)
	return err
}
