package node

import (
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/mesh"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/upstream"
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
	front, err := n.doors.Prepare(cfg, list)
	if err != nil {
		return nil, err
	}
	all := []func() error{mail, front}
	if n.upstream != nil {
		token, err := n.upstream.Prepare(cfg)
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
		return errors.Join(errs...)
	}, nil
}

// CheckConfig checks whether a configuration that config.Load has accepted can be served on this
// machine: sizes of books, rules of rate limits, and the parts that only a door can check, such as
// policies, keys and zones. It reads certificates, credentials and the files of lists, and changes
// nothing.
func CheckConfig(cfg *config.Config) error {
	rules, err := rulesOf(cfg)
	if err == nil {
		err = checkRules(rules)
	}
	errs := []error{checkSizes(asEdge(cfg), machineMemory()), err, checkAccess("mesh", cfg.Mesh.Access()),
		checkAccess("aggregate", cfg.Aggregate.Access()), checkAccess("shards", cfg.Shards.Access())}
	if err := upstream.CheckTokens(cfg, ReadSecret); err != nil {
		errs = append(errs, err)
	}
	set, err := lists.OpenSet(lists.SetOptions{Files: filesOf(cfg), MaxBytes: cfg.Lists.MaxBytes})
	if err != nil {
		return errors.Join(append(errs, &config.Error{Key: "lists.list", Detail: err.Error()})...)
	}
	return errors.Join(append(errs, doors.Check(cfg, set.Handle))...)
}

// checkAccess checks the credentials for NATS servers in a section of the configuration.
func checkAccess(section string, a config.Access) error {
	files := mesh.Access{Credentials: a.Credentials, CA: a.CA, Cert: a.Cert, Key: a.Key}
	var errs []error
	for option, err := range files.Check(clock.Now()) {
		errs = append(errs, &config.Error{Key: section + "." + option, Detail: err.Error()})
	}
	return errors.Join(errs...)
}
