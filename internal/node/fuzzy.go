package node

import (
	"context"
	"errors"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/listen"
)

// openFuzzy opens the door for rspamd's fuzzy_check: UDP, and TCP on the same
// port for clients that are configured to use it.
func (s *Node) openFuzzy(ctx context.Context, address string) (*opened, error) {
	front, err := s.newFuzzy()
	if err != nil {
		return nil, err
	}
	o, err := openPort(ctx, address, front.ServePackets, front.ServeStream)
	if err != nil {
		return nil, err
	}
	s.doorStats.add("fuzzy", fuzzyEvents(&front.Stats))
	return o, nil
}

func (s *Node) newFuzzy() (*fuzzy.Server, error) {
	cfg := s.cfg.Load()
	front := &fuzzy.Server{
		House: s.engine, Cleared: func(sigs []bulkhead.Signature) bool { return s.engine.Whitelisted(new(bulkhead.Source), sigs) != "" }, Log: s.log.With("door", "fuzzy"), EncryptedOnly: cfg.Fuzzy.EncryptedOnly, ReadOnly: cfg.Fuzzy.ReadOnly,
		SpamFlags: append([]uint8{}, cfg.Fuzzy.SpamFlags...), HamFlags: append([]uint8{}, cfg.Fuzzy.HamFlags...),
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	var err1, err2 error
	front.UpdateFrom, err1 = prefixes(cfg.Fuzzy.UpdateFrom)
	front.Blocked, err2 = prefixes(cfg.Fuzzy.Blocked)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	for _, k := range cfg.Fuzzy.Keys {
		pair, err := fuzzy.ParseSecret(k.Secret)
		if err != nil {
			return nil, &config.Error{Key: "fuzzy.keys.secret", Detail: err.Error()}
		}
		expires, err := k.ExpiresAt()
		if err != nil {
			return nil, &config.Error{Key: "fuzzy.keys.expires", Detail: err.Error()}
		}
		front.Keys = append(front.Keys, &fuzzy.Key{
			KeyPair: pair, Name: k.Name, Account: k.Account, Update: k.Update, Expires: expires, Hidden: k.Hidden,
			Rate: listen.Rate{PerSecond: k.Rate, Burst: k.Burst},
		})
	}
	return front, nil
}
