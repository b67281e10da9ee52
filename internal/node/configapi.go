package node

import (
	"errors"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// Config implements [api.Configuration].
func (n *Node) Config() admin.Configuration {
	out := admin.Configuration{Reloadable: n.reread != nil}
	for _, s := range config.Settings(n.cfg.Load()) {
		out.Settings = append(out.Settings,
			admin.Setting{Key: s.Key, Value: s.Value, Meaning: s.Doc, Reload: s.Reload, Default: s.Default})
	}
	return out
}

// CheckConfig implements [api.Configuration].
func (n *Node) CheckConfig(text string) (out admin.ConfigCheck) {
	cfg, err := config.Examine([]byte(text))
	if cfg != nil {
		err = errors.Join(err, CheckConfig(cfg))
	}
	if err != nil {
		return admin.ConfigCheck{Mistakes: Mistakes(err)}
	}
	out.Changed, out.Restart = config.Changed(n.cfg.Load(), cfg)
	return out
}

// ReloadConfig implements [api.Configuration].
func (n *Node) ReloadConfig() (out admin.ConfigCheck, err error) {
	if n.reread == nil {
		return out, &client.Problem{Title: "Conflict", Status: http.StatusConflict,
			Detail: "this node was started without a configuration file: there is nothing to reload"}
	}
	out.Changed, out.Restart, err = n.reread()
	if err != nil {
		out.Mistakes = Mistakes(err)
	}
	return out, nil
}

// Mistakes returns the text of each joined error.
func Mistakes(err error) (all []string) {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, e := range several.Unwrap() {
			all = append(all, Mistakes(e)...)
		}
		return all
	}
	return []string{err.Error()}
}
