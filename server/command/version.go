package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/mnemeproxy/mneme/store/search/synonyms"
)

// Version is "mneme version".
type Version struct {
	JSON     bool `help:"Write the version as JSON."`
	Licenses bool `help:"Show the licenses of the data that is part of the program."`
}

// build is the build information of a binary.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run writes one line, or the licenses.
func (c *Version) Run(s *Env) error {
	if c.Licenses {
		fmt.Fprintf(s.Out, "Synonyms of searches are from WordNet.\n\n%s", synonyms.License)
		return nil
	}
	b := build{Version: s.version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if c.JSON {
		return writeJSON(s.Out, b)
	}
	fmt.Fprintf(s.Out, "mneme %s (%s, %s)\n", b.Version, b.Go, b.Platform)
	return nil
}

// version prefers the version set by the build, then the module version recorded by go install.
func (s *Env) version() string {
	if s.Version != "" {
		return s.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
