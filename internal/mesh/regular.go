package mesh

import (
	"context"
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

// announceRegularly makes a hub announce new secrets when they are due.
func (m *Mesh) announceRegularly(ctx context.Context) {
	if m.opts.RekeyEvery == 0 || m.opts.Mode != Hub || m.opts.Switch == nil {
		return
	}
	for {
		if time.Since(m.began) >= 2*secretBeats*m.opts.Heartbeat { // announcements of other hubs have arrived by now
			m.announceDue(m.otherHubs())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(switchPoll):
		}
	}
}

// otherHubs returns the keys of the hubs that this hub names, and whether it has met each of them.
func (m *Mesh) otherHubs() (keys []string, all bool) {
	all = true
	for _, b := range m.buses {
		hub, ok := b.(*natsBus)
		if !ok || hub.holder == nil {
			continue
		}
		if key := hub.holder.Load(); key != nil {
			keys = append(keys, key.ID())
		} else {
			all = false
		}
	}
	return keys, all
}

// announceDue announces another secret if it is due, and if this hub is the one to announce it.
func (m *Mesh) announceDue(hubs []string, all bool) {
	now, every := m.opts.Now(), m.opts.RekeyEvery
	next := now.Truncate(every).Add(every)
	at := next.Add(-SwitchAhead)
	if now.Before(next.Add(-min(MostRegularLead, every/4))) || !now.Before(at) {
		m.postponed = ""
		return
	}
	if r := m.lastRotation(); r != nil &&
		(len(r.Secret) > 0 && r.to().ID() != m.opts.KeyID || r.At.After(next.Add(-every/2))) {
		return // announced, just done, or taken back
	}
	if why := m.mayAnnounce(hubs, all); why != "" {
		if why != m.postponed {
			m.postponed = why
			m.opts.Log.Warn("another secret of the network is due, and not announced here", "due", at.UTC(), "why", why)
		}
		return
	}
	if _, err := m.Rotate(NewRotation{After: at.Sub(now)}); err != nil {
		m.opts.Log.Error("another secret of the network is due, and could not be announced", "due", at.UTC(), "err", err)
	}
}

// mayAnnounce returns why this hub does not announce another secret, or "".
func (m *Mesh) mayAnnounce(hubs []string, all bool) string {
	for _, key := range hubs {
		if key < m.opts.Identity.ID() {
			return "the hub " + key + " announces it"
		}
	}
	if !all {
		return "a hub that this one names has not been met, and might announce it"
	}
	if m.opts.MayRekey != nil {
		if err := m.opts.MayRekey(); err != nil {
			return err.Error()
		}
	}
	return ""
}
