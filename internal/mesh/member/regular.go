package member

import (
	"context"
	"strings"
	"time"
)

// A hub can announce another secret of the network at regular intervals. Of the hubs that name each
// other, only the hub with the lowest key does so. The others never do, so two hubs cannot announce
// at once. While that hub is away, the secret stays. All derive the moment, a multiple of the
// interval, from the clock alone.

const (
	// MostRegularLead is the longest time between the announcement of the next secret and its use.
	// It is a quarter of the interval, if that is less.
	MostRegularLead = 72 * time.Hour
	// SwitchAhead is how long before a multiple of the interval the secret changes, so that the
	// generations which begin there are the first under the new secret.
	SwitchAhead = 30 * time.Second
)

// AnnounceRegularly makes a hub announce new secrets when they are due.
func (c *Secrets) AnnounceRegularly(ctx context.Context) {
	if c.Opts.RekeyEvery == 0 || c.Opts.Mode != Hub || c.Opts.Switch == nil {
		return
	}
	for {
		if time.Since(c.Began) >= 2*SecretBeats*c.Opts.Heartbeat { // announcements of other hubs have arrived by now
			c.AnnounceDue(c.otherHubs())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(switchPoll):
		}
	}
}

// otherHubs returns the keys of the hubs that this hub names, and whether it has met each of them.
func (c *Secrets) otherHubs() (keys []string, all bool) {
	all = true
	for _, h := range c.hubs {
		if key, ok := h.Holder(); ok {
			keys = append(keys, key.ID())
		} else {
			all = false
		}
	}
	return keys, all
}

// AnnounceDue announces another secret if it is due, and if this hub is the one to announce it.
func (c *Secrets) AnnounceDue(hubs []string, all bool) {
	now, every := c.Opts.Now(), c.Opts.RekeyEvery
	next := now.Truncate(every).Add(every)
	at := next.Add(-SwitchAhead)
	if now.Before(next.Add(-min(MostRegularLead, every/4))) || !now.Before(at) {
		c.postponed = ""
		return
	}
	if r := c.LastRotation(); r != nil &&
		(len(r.Secret) > 0 && r.To().ID() != c.Opts.KeyID || r.At.After(next.Add(-every/2))) {
		return // announced, just done, or taken back
	}
	if why := c.mayAnnounce(hubs, all); why != "" {
		if why != c.postponed {
			c.postponed = why
			c.Opts.Log.Warn("another secret of the network is due, and not announced here", "due", at.UTC(), "why", why)
		}
		return
	}
	if _, err := c.Rotate(NewRotation{After: at.Sub(now)}); err != nil {
		c.Opts.Log.Error("another secret of the network is due, and could not be announced", "due", at.UTC(), "err", err)
	}
}

// mayAnnounce returns why this hub does not announce another secret, or "".
func (c *Secrets) mayAnnounce(hubs []string, all bool) string {
	for _, key := range hubs {
		if key < c.Opts.Identity.ID() {
			return "the hub " + key + " announces it"
		}
	}
	if !all {
		return "a hub that this one names has not been met, and might announce it"
	}
	if who := c.Unable(); len(who) > 0 {
		return "members cannot take it: " + strings.Join(who, "; ")
	}
	if c.Opts.MayRekey != nil {
		if err := c.Opts.MayRekey(); err != nil {
			return err.Error()
		}
	}
	return ""
}
