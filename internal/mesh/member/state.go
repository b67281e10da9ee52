package member

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// A State is what a node remembers of its own incarnations and of what it has read from brokers. It
// is kept on disk. Its methods may be called concurrently.
type State struct {
	opts *Options

	Mu sync.Mutex // guards the fields below
	Record
	TwinAt  time.Time // when another server with this node's key was last detected
	started uint64    // Unix time of the start of this process, in milliseconds
	boots   []uint64  // boot numbers of this process
}

// OpenState reads the state in the folder o.Dir.
func OpenState(o *Options) (*State, error) {
	r, err := LoadState(o.Dir)
	return &State{opts: o, Record: r}, err
}

// Begin gives this process a boot number. It begins a new incarnation if the versions of the node's
// arrays, which are own, may have gone back; whole rules that out although the store is another one.
func (s *State) Begin(own []engine.ArrayState, whole bool) (renewed bool, err error) {
	now := uint64(max(s.opts.Now().UnixMilli(), 1))
	s.Mu.Lock()
	defer s.Mu.Unlock()
	before := s.Boot
	renewed = s.Incarnation == 0 || s.Store != s.opts.Store && !whole || s.Unsynced
	if renewed {
		s.Incarnation = max(now, s.Incarnation+1, s.Boot+1)
		before = 0
	}
	// A random part keeps two processes of one copied folder, under a clock that was set back, from
	// having the same number.
	s.Boot = max(now, s.Boot+1, s.Incarnation) + rand.Uint64N(1024)
	s.started, s.boots = now, append(s.boots, s.Boot)
	s.found(own, before)
	s.Store, s.Unsynced, s.Key = s.opts.Store, s.opts.Unsynced, s.opts.Identity.ID()
	return renewed, s.Save(s.opts.Dir)
}

// Renew begins another incarnation of this process, numbered above every number in use and above
// least. own are the node's arrays.
func (s *State) Renew(own []engine.ArrayState, least uint64) error {
	now := s.opts.Now()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Incarnation = max(uint64(max(now.UnixMilli(), 1)), s.Incarnation+1, s.Boot+1, least+1)
	s.Boot = s.Incarnation + 1 + rand.Uint64N(1024)
	s.boots = append(s.boots, s.Boot)
	s.found(own, 0)
	return s.Save(s.opts.Dir)
}

// Life returns the present incarnation and the boot number of this process.
func (s *State) Life() (incarnation, boot uint64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Incarnation, s.Boot
}

// Continues reports whether the node has an incarnation that belongs to the store with the given
// name; known is false if it has none yet.
func (s *State) Continues(store string) (same, known bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return store == s.Store, s.Incarnation != 0
}

// Lineage returns the lineage of one of the node's arrays.
func (s *State) Lineage(r wire.Ref) wire.Lineage {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.LineageOf(r)
}

// Mine reports whether boot is or was a number of this process.
func (s *State) Mine(boot uint64) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return boot == s.Boot || slices.Contains(s.boots, boot)
}

// Started returns the start of this process in milliseconds since 1970.
func (s *State) Started() uint64 {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.started
}

// NoteTwin records that another server with the node's key was detected at this moment.
func (s *State) NoteTwin() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.TwinAt = time.Now()
}

// Twin reports whether another server with the node's key was detected within the given time.
func (s *State) Twin(within time.Duration) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return !s.TwinAt.IsZero() && time.Since(s.TwinAt) < within
}

// LastSeen returns the time up to which all stored messages of a broker have been read. known is
// false if the broker has no entry; the time is then that of any broker, which older files have.
func (s *State) LastSeen(broker string) (at time.Time, known bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if at, known = s.Seen[broker]; !known {
		at = s.SeenAny
	}
	return at, known
}

// Newest returns the time up to which the stored messages of some broker have been read.
func (s *State) Newest() time.Time {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	newest := s.SeenAny
	for _, at := range s.Seen {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// SaveSeen replaces the times up to which the stored messages of brokers have been read.
func (s *State) SaveSeen(seen map[string]time.Time) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Seen = seen
	return s.Save(s.opts.Dir)
}

// maxAdmitted bounds the remembered hubs.
const maxAdmitted = 64

// Admit records that a hub has admitted the node.
func (s *State) Admit(hub string) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if slices.Contains(s.Admitted, hub) {
		return nil
	}
	s.Admitted = append(s.Admitted, hub)
	s.Admitted = s.Admitted[max(0, len(s.Admitted)-maxAdmitted):]
	return s.Save(s.opts.Dir)
}

// WasAdmitted reports whether a hub has admitted the node before.
func (s *State) WasAdmitted(hub string) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Contains(s.Admitted, hub)
}

// Close writes the state. synced is set if everything that was published is on disk.
func (s *State) Close(synced bool) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if synced {
		s.Unsynced = false
	}
	return s.Save(s.opts.Dir)
}

// A Record is a State as it is on disk.
type Record struct {
	Store       string       `json:"store"`         // incarnation of the store it belongs to
	Key         string       `json:"key,omitempty"` // the key that the node last ran with
	Incarnation uint64       `json:"incarnation"`
	Boot        uint64       `json:"boot"`
	Arrays      []OwnLineage `json:"arrays,omitempty"`
	// Unsynced is true while a process runs whose reports are acknowledged, and published, before
	// they are on disk. If it ends without notice, the published versions may be ahead of the
	// surviving ones.
	Unsynced bool `json:"unsynced,omitempty"`
	// Seen is, by broker address, the time up to which all stored messages of the broker have been
	// read, to within a minute.
	Seen map[string]time.Time `json:"seen_of,omitempty"`
	// SeenAny is when a message of a peer last arrived, from versions of the file before Seen.
	SeenAny time.Time `json:"seen,omitzero"`
	// Admitted is the keys of the hubs that have admitted the node.
	Admitted []string `json:"admitted,omitempty"`
}

// LoadState reads the state of the mesh folder dir; an absent file is the zero state.
func LoadState(dir string) (s Record, err error) {
	if err := wholefile.ReadJSON(filepath.Join(dir, StateFile), &s); err != nil {
		return s, fmt.Errorf("mesh: %w", err)
	}
	return s, nil
}

// Save writes the state to the mesh folder dir.
func (s *Record) Save(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return WriteFile(filepath.Join(dir, StateFile), data)
}

// An OwnLineage is the lineage of an array of this node, as it is kept on disk.
type OwnLineage struct {
	Array  engine.Array `json:"array"`
	Start  uint64       `json:"start"`
	Epochs wire.Lineage `json:"epochs"`
}

// found records the versions at which a new process finds the node's arrays. before is the boot
// number of the previous process, 0 if unknown.
func (s *Record) found(own []engine.ArrayState, before uint64) {
	old := s.Arrays
	s.Arrays = nil
	for _, a := range own {
		var l wire.Lineage
		if i := slices.IndexFunc(old, func(o OwnLineage) bool {
			return o.Array == a.Array && o.Start == a.Start
		}); before != 0 && i >= 0 {
			l = old[i].Epochs
		} else if before != 0 {
			l = wire.Lineage{{Boot: before, Base: 0}} // made since the last call
		}
		s.Arrays = append(s.Arrays, OwnLineage{a.Array, a.Start, l.With(wire.Epoch{Boot: s.Boot, Base: a.Version})})
	}
}

// LineageOf returns the lineage of one of this node's arrays.
func (s *Record) LineageOf(r wire.Ref) wire.Lineage {
	for _, a := range s.Arrays {
		if a.Array == r.Array && a.Start == r.Start {
			return a.Epochs
		}
	}
	return wire.Lineage{{Boot: s.Boot, Base: 0}} // made by this process
}
