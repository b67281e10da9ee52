package node

import (
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// ErrInPart means that a new configuration is valid, and that a part of it could not be applied.
var ErrInPart = errors.New("node: configuration reloaded in part")

// Reload applies the parts of a configuration that a running node can. config.Load must have
// accepted it. changed lists the keys that were applied, restart the keys that need a restart.
// After an error nothing has changed, unless it wraps [ErrInPart].
func (n *Node) Reload(cfg *config.Config) (changed, restart []string, err error) {
	n.reloading.Lock()
	defer n.reloading.Unlock()
	changed, restart = config.Changed(n.cfg.Load(), cfg)
	takeOver, err := n.prepare(config.Reloaded(n.cfg.Load(), cfg))
	if err != nil {
		return nil, nil, err
	}
	if err := takeOver(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInPart, err)
	}
	return changed, restart, nil
}

// prepare checks all parts of a configuration that a running node can apply, and returns a function
// that applies them. Nothing is applied before everything was checked.
func (n *Node) prepare(cfg *config.Config) (takeOver func() error, err error) {
	mail, list, err := n.mta.prepare(cfg)
	if err != nil {
		return nil, err
	}
	all := []func() error{mail}
	p := &proposal{Config: cfg, list: list}
	for _, o := range n.opened {
		if o.prepare == nil {
			continue
		}
		door, err := o.prepare(p)
		if err != nil {
			return nil, err
		}
		all = append(all, door)
	}
	if n.token != nil {
		token, err := n.token.prepare(cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, token)
	}
	core, err := n.core.prepare(cfg)
	if err != nil {
		return nil, err
	}
	return func() error {
		var errs []error
		for _, take := range append(all, core) {
			errs = append(errs, take())
		}
		n.rate.Set(doorLimits(cfg.Limits))
		return errors.Join(errs...)
	}, nil
}
