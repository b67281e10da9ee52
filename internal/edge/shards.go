package edge

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/shard"
)

// routes are the targets of an edge, and which of them has a request. They do not change.
type routes struct {
	m      *shard.Map // nil: there is one upstream, or no map yet
	domain string
	all    []*target
	rest   *target       // of requests that name no mailbox, and of all without a map; nil: there is none yet
	next   chan struct{} // closed once the edge has other routes
}

// of returns the target of a mailbox, "" for none.
func (r *routes) of(mailbox string) *target {
	if r.m == nil || mailbox == "" {
		return r.rest
	}
	if r.domain != "" && !strings.Contains(mailbox, "@") {
		mailbox += "@" + r.domain
	}
	return r.named(r.m.Of(mailbox))
}

// named returns the target with a name; nil for none.
func (r *routes) named(name string) *target {
	if i := slices.IndexFunc(r.all, func(t *target) bool { return t.name == name }); i >= 0 {
		return r.all[i]
	}
	return nil
}

// queue returns the name of the target of a report in the spool, when there is a map. may is the name of the shard that
// may have the report already.
func (r *routes) queue(mailbox, may string) string {
	if r.named(may) != nil {
		return may
	}
	return r.of(mailbox).name
}

// mailboxOf returns the mailbox whose shard a report goes to: its first recipient, or else the user who votes. It is ""
// if the report names neither.
func mailboxOf(r *bulkhead.Report) string {
	if len(r.Recipients) > 0 {
		return bulkhead.Mailbox(r.Recipients[0])
	}
	return bulkhead.Mailbox(r.Reporter.User)
}

// askedFor returns the mailbox whose shard answers a query.
func askedFor(q *bulkhead.Query) string {
	if q.Mailbox != "" {
		return bulkhead.Mailbox(q.Mailbox)
	}
	return bulkhead.Mailbox(q.Reporter.User)
}

// current returns the present routes.
func (e *Edge) current() *routes {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.routes
}

// Use makes the edge send each message to the shard that a map gives its mailbox to. Requests under way end where they
// began. Reports in the spool that no shard may have yet go to the shards of the new map.
func (e *Edge) Use(m *shard.Map) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.use(m)
}

// Prefer changes Default and Domain of the options.
func (e *Edge) Prefer(shard, domain string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.o.Default, e.o.Domain = shard, domain
	if m := e.routes.m; m != nil {
		e.use(m)
	}
}

// use is [Edge.Use]. The caller holds mu.
func (e *Edge) use(m *shard.Map) {
	next := &routes{m: m, domain: strings.ToLower(e.o.Domain), next: make(chan struct{})}
	for _, s := range m.Shards {
		t := e.routes.named(s.Name)
		if t == nil || !slices.Equal(t.urls, s.URLs) {
			t = e.target(s.Name, e.o.Open(s))
			t.urls = s.URLs
		}
		next.all = append(next.all, t)
	}
	if next.rest = next.named(e.o.Default); next.rest == nil {
		next.rest = next.named(m.Default)
	}
	if e.spool != nil {
		e.spool.route(func(x entry) string { return next.queue(x.mailbox, cmp.Or(x.may, e.sent.get(x.repeat))) })
	}
	close(e.routes.next)
	e.routes = next
}

// A ShardState is what an edge knows of a shard.
type ShardState struct {
	Name    string
	Up      bool // it answered the last request
	Waiting int  // reports in the spool
	Rest    bool // it has the requests that name no mailbox
}

// Shards returns the state of each shard of the map in use, by name; nil if there is none.
func (e *Edge) Shards() (all []ShardState) {
	r := e.current()
	if r.m == nil {
		return nil
	}
	for _, t := range r.all {
		s := ShardState{Name: t.name, Up: !t.health.away(), Rest: t == r.rest}
		if e.spool != nil {
			s.Waiting = e.spool.waiting(t.name)
		}
		all = append(all, s)
	}
	return all
}

// each runs a function for every target, and for those of later routes, until ctx ends. It ends the function of a
// target that is no longer there, before it begins others.
func (e *Edge) each(ctx context.Context, run func(context.Context, *target)) {
	ends := make(map[*target]func())
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for {
		r := e.current()
		for t, end := range ends {
			if !slices.Contains(r.all, t) {
				end()
				delete(ends, t)
			}
		}
		for _, t := range r.all {
			if ends[t] != nil {
				continue
			}
			own, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				run(own, t)
			}()
			ends[t] = func() {
				cancel()
				<-done
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-r.next:
		}
	}
}

// Limits of the memory of reports that were sent.
const (
	sentFor  = 30 * time.Minute
	sentSize = 1 << 17
)

// sent remembers which shard a report was sent to, so that its repetition goes there too when its mailbox has moved. It
// remembers the last half hour, and up to an hour, or as many as sentSize. Its methods may be called concurrently.
type sent struct {
	now func() time.Time

	mu         sync.Mutex
	new, old   map[uint64]string // by key
	generation time.Time         // when new began
}

var sentSeed = maphash.MakeSeed()

// A sighting is what repetitions of a sighting have in common.
type sighting struct {
	by bulkhead.Reporter
	id string
}

// repeatKey returns the same key for repetitions of a report: for sightings with one ID by one reporter, and for votes
// of one voter on one message. It is 0 for a sighting without an ID, which is never repeated. Another report has the
// same key, or the key 0, with a probability of one in 2^64.
func repeatKey(r *bulkhead.Report) uint64 {
	if r.Vote == bulkhead.Sighting && r.ID == "" {
		return 0
	}
	if r.Vote == bulkhead.Sighting {
		return maphash.Comparable(sentSeed, sighting{r.Reporter, r.ID})
	}
	var h maphash.Hash
	h.SetSeed(sentSeed)
	maphash.WriteComparable(&h, r.Reporter)
	for i := range r.Signatures {
		maphash.WriteComparable(&h, r.Signatures[i])
	}
	return h.Sum64()
}

// put notes that a report goes to a shard.
func (s *sent) put(key uint64, shard string) {
	if key == 0 || shard == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); len(s.new) >= sentSize || now.Sub(s.generation).Abs() >= sentFor {
		s.new, s.old, s.generation = make(map[uint64]string), s.new, now
	}
	s.new[key] = shard
}

// get returns the shard that a report was sent to, "" if that is not known.
func (s *sent) get(key uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.new[key], s.old[key])
}
