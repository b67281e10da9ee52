package fuzzy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/ledger"
)

// lists knows which lists are in use, so that checks look up only those. It follows
// counters in the clearinghouse, which count the lists of the whole network. It may be
// used concurrently.
type lists struct {
	current atomic.Pointer[[]uint8]
	// taken is set once something was taken away, by a negative write or a delete. Until
	// then it is not looked up.
	taken *ledger.Mark

	mu     sync.Mutex // guards changes of current, and what follows
	warned bool
}

// inUse returns the lists in use, ascending; the slice must not be changed.
func (l *lists) inUse() []uint8 {
	if p := l.current.Load(); p != nil {
		return *p
	}
	return nil
}

// add adds a list and reports whether there was room for it.
func (l *lists) add(flag uint8) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.inUse()
	at, found := slices.BinarySearch(old, flag)
	if found {
		return true
	}
	if len(old) >= maxLists {
		return false
	}
	next := slices.Insert(slices.Clone(old), at, flag)
	l.current.Store(&next)
	return true
}

// refresh follows the counters until ctx ends.
func (s *Server) refresh(ctx context.Context) {
	tick := time.NewTicker(listsRefresh)
	defer tick.Stop()
	for {
		s.followLists(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Server) followLists(ctx context.Context) {
	q := questions{counted: true}
	for flag := range 256 {
		q.sigs = append(q.sigs, listSignature(uint8(flag)))
	}
	err := q.ask(ctx, s.setup.house)
	if err == nil {
		err = s.lists.taken.Refresh(ctx, s.setup.house)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Warn("lists not refreshed", "err", err)
		}
		return
	}
	for flag := range q.looks {
		if q.looks[flag].Sightings > 0 && !s.lists.add(uint8(flag)) {
			s.lists.mu.Lock()
			if !s.lists.warned {
				s.lists.warned = true
				s.Log.Warn("more lists in use than the limit", "list", flag, "limit", maxLists)
			}
			s.lists.mu.Unlock()
		}
	}
}
