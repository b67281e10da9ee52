package api

import (
	"cmp"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Configuration gives access to the configuration of the node. Its methods may be called
// concurrently.
type Configuration interface {
	// Config returns the configuration without secrets.
	Config() admin.Configuration
	// CheckConfig checks the text of a file, and changes nothing.
	CheckConfig(text string) admin.ConfigCheck
	// PreviewReload returns what ReloadConfig would do now, and changes nothing. Its error is that of
	// ReloadConfig.
	PreviewReload() (admin.ConfigCheck, error)
	// ReloadConfig reads the file again and applies the settings that a running node can change.
	// Mistakes in the file are in the result; then nothing has changed. The error is a
	// [client.Problem] if the node has no file, or else an internal error of the node.
	ReloadConfig() (admin.ConfigCheck, error)
}

func (s *Server) configuration() (Configuration, error) {
	if s.opts.Config == nil {
		return nil, newProblem(http.StatusNotFound, "this server has no configuration")
	}
	return s.opts.Config, nil
}

func (s *Server) showConfig(*request) (any, error) {
	c, err := s.configuration()
	if err != nil {
		return nil, err
	}
	out := c.Config()
	return &out, nil
}

func (s *Server) checkConfig(r *request) (any, error) {
	in, err := one[admin.ConfigText](r)
	if err != nil {
		return nil, err
	}
	c, err := s.configuration()
	if err != nil {
		return nil, err
	}
	out := full(c.CheckConfig(in.Text))
	r.did = []any{"mistakes", len(out.Mistakes)}
	return &out, nil
}

func (s *Server) previewReload(*request) (any, error) {
	c, err := s.configuration()
	if err != nil {
		return nil, err
	}
	out, err := c.PreviewReload()
	out = full(out)
	return &out, err
}

func (s *Server) reloadConfig(r *request) (any, error) {
	c, err := s.configuration()
	if err != nil {
		return nil, err
	}
	out, err := c.ReloadConfig()
	r.did = []any{"changed", out.Changed, "need_restart", out.Restart, "mistakes", len(out.Mistakes)}
	out = full(out)
	return &out, err
}

// full returns c without nil lists, which JSON would write as null.
func full(c admin.ConfigCheck) admin.ConfigCheck {
	for _, l := range []*[]string{&c.Mistakes, &c.Changed, &c.Restart} {
		if *l == nil {
			*l = []string{}
		}
	}
	if c.Diff == nil {
		c.Diff = []admin.SettingChange{}
	}
	return c
}

// How many keys of a rule /v1/ratelimits/top returns without a limit, and at most.
const (
	topKeys    = 20
	maxTopKeys = 128
)

func (s *Server) topRates(r *request) (any, error) {
	rates, err := s.rateLimits()
	if err != nil {
		return nil, err
	}
	all, err := rates.TopRateKeys(int(min(cmp.Or(number(r.query, "limit"), topKeys), maxTopKeys)))
	return append([]admin.TopKeys{}, all...), err
}

func (s *Server) weights(r *request) (any, error) {
	return append([]admin.Weights{}, s.opts.Users.Weights(r.Context())...), nil
}
