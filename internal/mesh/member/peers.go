package member

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// MaxPeers bounds the peer list.
const MaxPeers = 1024

// A Peer is an entry of the peer list, as stored on disk.
type Peer struct {
	ID     string    `json:"key"`
	Name   string    `json:"name,omitempty"`
	Weight float64   `json:"weight"`
	Added  time.Time `json:"added"`
	// Quarantine is the reason why the peer is not counted, whatever its weight; "" if it is
	// counted.
	Quarantine string `json:"quarantine,omitempty"`
	// Refused are ranges of generations that are not accepted again after a rollback, by their
	// starts.
	Refused []Stretch `json:"refused,omitempty"`
	// Group is the group by which the peer is on the list, "" for none. Keeper is set if the peer
	// sends this node the list of the group.
	Group  string `json:"group,omitempty"`
	Keeper bool   `json:"keeper,omitempty"`

	Key wire.Public
}

// A Stretch is the generations that started at From or later, and at To or before.
type Stretch struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Refuses reports whether a rollback refuses the generation that starts at start.
func (p *Peer) Refuses(start uint64) bool {
	return slices.ContainsFunc(p.Refused, func(s Stretch) bool { return s.From <= start && start <= s.To })
}

// Origin returns the peer as an origin of the engine, of weight 0 in quarantine.
func (p *Peer) Origin() engine.Origin {
	o := engine.Origin{ID: p.ID, Weight: p.Weight}
	if p.Quarantine != "" {
		o.Weight = 0
	}
	return o
}

// Label returns the name of the peer or, without one, its key.
func (p *Peer) Label() string {
	if p.Name != "" {
		return p.Name
	}
	return p.ID
}

// CheckPeer returns an error for invalid names and weights.
func CheckPeer(name string, weight float64) error {
	if len(name) > wire.MaxName || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Errorf("%w: mesh: name of a peer %.80q: want up to %d bytes without control characters",
			bulkhead.ErrMalformed, name, wire.MaxName)
	}
	if !(weight >= 0 && weight <= 1) || math.IsNaN(weight) {
		return fmt.Errorf("%w: mesh: weight %v of a peer, want 0 to 1", bulkhead.ErrMalformed, weight)
	}
	return nil
}

// LoadPeers reads the peer list of dir; an absent one is empty.
func LoadPeers(dir string) ([]*Peer, error) {
	var list []*Peer
	if err := wholefile.ReadJSON(filepath.Join(dir, PeersFile), &list); err != nil {
		return nil, fmt.Errorf("mesh: %w", err)
	}
	seen := make(map[wire.Hint]bool)
	for _, p := range list {
		if p == nil {
			return nil, fmt.Errorf("mesh: %s: empty entry", PeersFile)
		}
		var err error
		if p.Key, err = wire.ParsePublic(p.ID); err != nil {
			return nil, fmt.Errorf("mesh: %s: %w", PeersFile, err)
		}
		if err := CheckPeer(p.Name, p.Weight); err != nil {
			return nil, fmt.Errorf("mesh: %s: %w", PeersFile, err)
		}
		if seen[p.Key.Hint()] {
			return nil, fmt.Errorf("mesh: %s: peer %s is listed twice", PeersFile, p.ID)
		}
		seen[p.Key.Hint()] = true
	}
	return list, nil
}

// Befriend puts a peer on the list of a node with the mesh folder dir. The node must not be
// sharing. A peer that is on the list already is unchanged, except for the group whose keeper it
// is.
func Befriend(dir, id, name, group string, weight float64, now time.Time) error {
	key, err := wire.ParsePublic(id)
	if err != nil {
		return fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	if err := CheckPeer(name, weight); err != nil {
		return err
	}
	list, err := LoadPeers(dir)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(p *Peer) bool { return p.Key.Hint() == key.Hint() }); i >= 0 {
		if group != "" {
			list[i].Group, list[i].Keeper = group, true
		}
		return SavePeers(dir, list)
	}
	if len(list) >= MaxPeers {
		return fmt.Errorf("%w: mesh: %d peers, limit %d", bulkhead.ErrOverLimit, len(list), MaxPeers)
	}
	return SavePeers(dir, append(list,
		&Peer{ID: id, Name: name, Weight: weight, Added: now.UTC().Truncate(time.Second), Group: group,
			Keeper: group != "", Key: key}))
}

// SavePeers writes the peer list of the mesh folder dir.
func SavePeers(dir string, list []*Peer) error {
	data, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return fmt.Errorf("mesh: %w", err)
	}
	return WriteFile(filepath.Join(dir, PeersFile), data)
}
