package node

import (
	"errors"
	"fmt"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// ErrInPart: a new configuration is right, and a part of it could not be taken over.
var ErrInPart = errors.New("node: configuration reloaded in part")

// Reload takes over what a running node can of a configuration that config.Load has
// found right. changed names the keys that were taken over, restart those that only
// a start takes over. A mistake changes nothing, unless the error wraps [ErrInPart].
func (s *Node) Reload(cfg *config.Config) (changed, restart []string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	changed, restart = config.Changed(s.cfg.Load(), cfg)
	takeOver, err := s.prepare(config.Reloaded(s.cfg.Load(), cfg))
	if err != nil {
		return nil, nil, err
	}
	if err := takeOver(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInPart, err)
	}
	return changed, restart, nil
}

// prepare judges all that a running server can take over of a configuration, and
// returns what does so: only what was found right is begun.
func (s *Node) prepare(cfg *config.Config) (takeOver func() error, err error) {
	access, err := accessOf(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := readCertificate(cfg)
	if err != nil {
		return nil, err
	}
	mta, err := s.mta.prepare(cfg)
	if err != nil {
		return nil, err
	}
	node, err := s.core.prepare(cfg)
	if err != nil {
		return nil, err
	}
	return func() error {
		err := errors.Join(mta(), node())
		s.rate.Set(doorLimits(cfg.Limits))
		if s.api != nil {
			s.api.SetAccess(access)
			s.https.pair.Store(pair)
		}
		return err
	}, nil
}
