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
	cfg, err := config.Examine([]byte(text))
	if cfg != nil {
		err = errors.Join(err, c.Check(cfg))
	}
	if err != nil {
		return admin.ConfigCheck{Mistakes: config.Mistakes(err)}
	}
	out.Changed, out.Restart = config.Changed(c.Current(), cfg)
	return out
}

// ReloadConfig implements [api.Configuration].
func (c *Configuration) ReloadConfig() (out admin.ConfigCheck, err error) {
	if c.Reread == nil {
		return out, &client.Problem{Title: "Conflict", Status: http.StatusConflict,
			Detail: "this node was started without a configuration file: there is nothing to reload"}
	}
	out.Changed, out.Restart, err = c.Reread()
	if err != nil {
		out.Mistakes = config.Mistakes(err)
	}
	return out, nil
}
