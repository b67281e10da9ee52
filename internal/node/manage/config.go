package manage

import (
	"errors"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// A Configuration is the node's configuration for the API: [api.Configuration].
type Configuration struct {
	// Current returns the present configuration. Check checks whether this machine can serve
	// another one.
	Current func() *config.Config
	Check   func(*config.Config) error
	// Reread reads the configuration file again and applies it; nil: there is no file.
	Reread func() (changed, restart []string, err error)
	// File reads the configuration file and returns its configuration; nil: there is no file.
	File func() (*config.Config, error)
}

// Config implements [api.Configuration].
func (c *Configuration) Config() admin.Configuration {
	out := admin.Configuration{Reloadable: c.Reread != nil}
	for _, s := range config.Settings(c.Current()) {
		out.Settings = append(out.Settings,
			admin.Setting{Key: s.Key, Value: s.Value, Meaning: s.Doc, Reload: s.Reload, Default: s.Default})
	}
	return out
}

// CheckConfig implements [api.Configuration].
func (c *Configuration) CheckConfig(text string) (out admin.ConfigCheck) {
	return c.compare(config.Examine([]byte(text)))
}

// compare returns what another configuration would change.
func (c *Configuration) compare(cfg *config.Config, err error) (out admin.ConfigCheck) {
	if cfg != nil {
		err = errors.Join(err, c.Check(cfg))
	}
	if err != nil {
		return admin.ConfigCheck{Mistakes: config.Mistakes(err)}
	}
	out.Changed, out.Restart = config.Changed(c.Current(), cfg)
	out.Diff = diff(config.Settings(c.Current()), config.Settings(cfg))
	return out
}

// diff returns the settings that differ, in the order of the new ones.
func diff(now, then []config.Setting) (out []admin.SettingChange) {
	had := make(map[string]config.Setting)
	for _, s := range now {
		had[s.Key] = s
	}
	for _, s := range then {
		if old := had[s.Key]; old.Value != s.Value {
			out = append(out, admin.SettingChange{Key: s.Key, Now: old.Value, Then: s.Value, Reload: s.Reload})
		}
		delete(had, s.Key)
	}
	for _, s := range now {
		if _, gone := had[s.Key]; gone {
			out = append(out, admin.SettingChange{Key: s.Key, Now: s.Value, Reload: s.Reload})
		}
	}
	return out
}

// errNoFile is the answer of a node without a configuration file.
func errNoFile() error {
	return &client.Problem{Title: "Conflict", Status: http.StatusConflict,
		Detail: "this node was started without a configuration file: there is nothing to reload"}
}

// PreviewReload implements [api.Configuration].
func (c *Configuration) PreviewReload() (out admin.ConfigCheck, err error) {
	if c.File == nil {
		return out, errNoFile()
	}
	return c.compare(c.File()), nil
}

// ReloadConfig implements [api.Configuration].
func (c *Configuration) ReloadConfig() (out admin.ConfigCheck, err error) {
	if c.Reread == nil {
		return out, errNoFile()
	}
	out.Changed, out.Restart, err = c.Reread()
	if err != nil {
		out.Mistakes = config.Mistakes(err)
	}
	return out, nil
}
