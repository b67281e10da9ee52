package doors

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/fuzzy"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// newFuzzy returns the server for rspamd's fuzzy_check.
func (s *Set) newFuzzy(cfg *config.Config) (*fuzzy.Server, error) {
	front, err := fuzzyOf(cfg)
	if err != nil {
		return nil, err
	}
	front.Rate, front.Exempt = s.doorRate(cfg.Limits)
	front.Memory, front.Clearinghouse, front.Now = s.opts.Memory, s.houseFor("fuzzy"), clock.Now
	front.Log, front.Cleared = s.opts.Log.With("door", "fuzzy"), func(sigs []bulkhead.Signature) bool {
		return s.opts.Whitelisted(new(bulkhead.Source), sigs)
	}
	return front, nil
}

// openFuzzy opens the door for rspamd's fuzzy_check: UDP, and TCP on the same port for clients that
// are configured to use it.
func (s *Set) openFuzzy(ctx context.Context, address string) (*opened, error) {
	front, err := s.newFuzzy(s.opts.Config())
	if err != nil {
		return nil, err
	}
	o, err := openPort(ctx, address, front)
	if err != nil {
		return nil, err
	}
	o.metrics = fuzzyMetrics(&front.Stats)
	return o, nil
}

// checkFuzzy checks keys.
func checkFuzzy(p *proposal) error {
	_, err := fuzzyOf(p.Config)
	return err
}

// fuzzyOf returns the door's settings in the configuration.
func fuzzyOf(cfg *config.Config) (*fuzzy.Server, error) {
	front := &fuzzy.Server{
		EncryptedOnly: cfg.Fuzzy.EncryptedOnly, ReadOnly: cfg.Fuzzy.ReadOnly,
		SpamFlags: append([]uint8{}, cfg.Fuzzy.SpamFlags...), HamFlags: append([]uint8{}, cfg.Fuzzy.HamFlags...),
	}
	var err1, err2 error
	front.UpdateFrom, err1 = config.ParseNetworks(cfg.Fuzzy.UpdateFrom)
	front.Blocked, err2 = config.ParseNetworks(cfg.Fuzzy.Blocked)
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
			Rate: door.Rate{PerSecond: k.Rate, Burst: k.Burst},
		})
	}
	return front, nil
}

func fuzzyMetrics(s *fuzzy.Stats) []prometheus.Collector {
	return doorEvents("fuzzy", map[string]*atomic.Int64{
		"check": &s.Checks, "found": &s.Found, "near": &s.Near, "write": &s.Writes, "delete": &s.Deletes,
		"retransmission": &s.Repeated, "stat": &s.Stat, "ping": &s.Ping, "refused": &s.Refused, "malformed": &s.Malformed,
		"encrypted": &s.Encrypted, "fault": &s.Faults, "unanswered": &s.Unanswered,
	})
}
