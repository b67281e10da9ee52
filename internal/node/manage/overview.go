package manage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
)

// waitingAge is how long the number of reports that wait is kept: finding them reads up to some
// thousand entries. waitingFor is how far back they are sought.
const (
	waitingAge = 20 * time.Second
	waitingFor = 7 * 24 * time.Hour
)

// eventsFor is how far back events are sought, as long as the longest chart.
const eventsFor = 90 * 24 * time.Hour

// maxEvents bounds the actions of administrators that are read.
const maxEvents = 200

// An Overview describes how the last day went: [api.Options].Overview. Sums and Started are required.
// Its methods may be called concurrently.
type Overview struct {
	Sums    *Sums
	Started time.Time
	History *History                                        // nil: the node keeps no history
	Audit   func(admin.AuditQuery) (admin.AuditPage, error) // nil: no record of administration
	Lists   func() []admin.List                             // nil: no lists

	mu      sync.Mutex
	at      time.Time // when waiting was counted; zero: never
	waiting int
	beyond  bool // there are reports that were not read
}

// Overview implements [api.Options].Overview.
func (o *Overview) Overview(ctx context.Context, acts bool) (admin.Overview, error) {
	o.Sums.Note()
	const day, week = 24 * time.Hour, 7 * 24 * time.Hour
	end := clock.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	out := admin.Overview{Since: end.Add(-day), Now: o.day(end), Before: o.day(end.Add(-week)), Events: []admin.Event{}}
	out.Known = len(o.Sums.Slots(time.Time{}, end.Add(-week), logbook.LongSlot)) > 0
	if o.History != nil {
		n, beyond, err := o.countWaiting(ctx)
		if err != nil {
			return out, err
		}
		out.Waiting, out.More = &n, beyond
	}
	return out, o.addEvents(&out, acts)
}

// day returns the numbers of the 24 hours before end.
func (o *Overview) day(end time.Time) (n admin.DayNumbers) {
	var all admin.DoorSum
	for _, slot := range o.Sums.Slots(end.Add(-24*time.Hour), end, logbook.LongSlot) {
		for _, sum := range slot.Doors {
			all.Add(doorSum(&sum))
		}
	}
	return admin.DayNumbers{Checked: all.Checks(), Caught: all.Spam + all.Suspected,
		Reported: all.SpamVotes - min(all.SpamVotes, all.TrapVotes), Complained: all.HamVotes + all.Revocations}
}

// countWaiting returns the number of reports that wait for a second voice, which is counted at most
// every waitingAge.
func (o *Overview) countWaiting(ctx context.Context) (n int, beyond bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := clock.Now(); o.at.IsZero() || now.Sub(o.at).Abs() >= waitingAge {
		page, err := o.History.History(ctx, admin.HistoryQuery{Outcome: "waiting", Since: now.Add(-waitingFor),
			Limit: logbook.MaxPage})
		if err != nil {
			return 0, false, err
		}
		o.waiting, o.beyond, o.at = len(page.Entries), page.Next != 0, now
	}
	return o.waiting, o.beyond, nil
}

// addEvents appends the start of the node, new lists and, with acts, what administrators did.
func (o *Overview) addEvents(out *admin.Overview, acts bool) error {
	add := func(at time.Time, kind, format string, args ...any) {
		out.Events = append(out.Events, admin.Event{Time: at.UTC(), Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	first := clock.Now().Add(-eventsFor)
	if o.Lists != nil {
		for _, l := range o.Lists() {
			if l.Updated.After(first) {
				add(l.Updated, "list", "list %s was updated", l.Name)
			}
		}
	}
	started := false
	if acts && o.Audit != nil {
		for _, action := range []struct{ name, kind, text string }{
			{"start", "start", "the node started"}, {"undoVotes", "undo", "votes were undone"},
			{"reload", "reload", "the configuration was reloaded"}, {"reloadConfig", "reload", "the configuration was reloaded"},
			{"evictPeer", "peer", "a peer was evicted"}, {"rollbackPeer", "peer", "a peer was rolled back"},
		} {
			page, err := o.Audit(admin.AuditQuery{Action: action.name, Since: first, Limit: maxEvents})
			if err != nil {
				return err
			}
			for _, e := range page.Entries {
				if e.Error != "" {
					continue
				}
				started = started || action.name == "start"
				if name := e.About["account"]; name != "" {
					add(e.Time, action.kind, "%s: %s", action.text, name)
				} else {
					add(e.Time, action.kind, "%s", action.text)
				}
			}
		}
	}
	if !started {
		add(o.Started, "start", "the node started")
	}
	slices.SortStableFunc(out.Events, func(a, b admin.Event) int { return a.Time.Compare(b.Time) })
	return nil
}
