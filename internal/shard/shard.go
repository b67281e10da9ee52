// Package shard divides the mailboxes of a site among its shards. A shard is a node with its standbys, which has the
// mail of some of the mailboxes. The map of a site divides all mailboxes into slots, and gives each slot to one shard:
//
//	m, err := shard.Parse(text)
//	...
//	name := m.Of("ann@example.com")
//
// A map does not change. The functions that change one return another map, see [Map.Level].
package shard

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

// Slots is the number of slots of a map. A slot moves as a whole.
const Slots = 1024

// Limits of a map.
const (
	maxShards = 256
	maxURLs   = 9   // of a shard: its first node and 8 standbys
	maxURL    = 512 // bytes
	maxText   = 256 // bytes of a note
	// MaxBytes is the size of the longest map in JSON, bytes.
	MaxBytes = 512 << 10
)

// format is the version of the JSON form.
const format = 1

// A Shard is a node with its standbys.
type Shard struct {
	Name string   // 1 to 32 of the characters a to z, 0 to 9 and "-"; it does not begin or end with "-"
	URLs []string // addresses of the HTTP doors of the first node and of its standbys
}

// A Note describes the change that made a map.
type Note struct {
	At   time.Time // later than the At of the map before
	By   string    // who made it
	What string    // what changed, in words
}

// A Map gives each slot to one shard. It is not changed after it was made, and may be used concurrently.
type Map struct {
	Version uint64  // number of changes, from 1
	Default string  // name of the shard of requests that name no mailbox
	Shards  []Shard // by name
	Note    Note

	salt  [16]byte
	owner [Slots]uint8 // indexes in Shards
}

// document is the JSON form of a map.
type document struct {
	Format  int       `json:"format"`
	Version uint64    `json:"version"`
	Salt    string    `json:"salt"`
	Default string    `json:"default"`
	Shards  []element `json:"shards"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	What    string    `json:"what"`
}

// element is the JSON form of a shard.
type element struct {
	Name  string   `json:"name"`
	URLs  []string `json:"urls"`
	Slots string   `json:"slots"` // numbers and ranges, ascending: "0-63,70"
}

var shardName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// ErrNewer means that a map was written by a newer version of the program.
var ErrNewer = errors.New("shard: the map was written by a newer version")

// New returns the map of a site with one shard, which has all slots.
func New(first Shard, note Note) (*Map, error) {
	m := &Map{Version: 1, Default: first.Name, Shards: []Shard{first}, Note: note}
	m.Note.At = wire(note.At)
	if _, err := rand.Read(m.salt[:]); err != nil {
		return nil, err
	}
	return m, m.validate()
}

// wire returns a time as the JSON form has it, in milliseconds.
func wire(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Parse reads a map in JSON, and validates all of it. Errors wrap [bulkhead.ErrMalformed] or [ErrNewer].
func Parse(text []byte) (*Map, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("shard: %w: a map of %d bytes, limit %d", bulkhead.ErrMalformed, len(text), MaxBytes)
	}
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err == nil && version.Format > format {
		return nil, fmt.Errorf("%w: format %d, this one reads %d", ErrNewer, version.Format, format)
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("shard: %w: %v", bulkhead.ErrMalformed, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("shard: %w: bytes behind the map", bulkhead.ErrMalformed)
	}
	m := &Map{Version: d.Version, Default: d.Default, Note: Note{At: wire(d.At), By: d.By, What: d.What}}
	salt, err := hex.DecodeString(d.Salt)
	if err != nil || len(salt) != len(m.salt) || d.Format != format {
		return nil, fmt.Errorf("shard: %w: format %d with a salt of %d digits", bulkhead.ErrMalformed, d.Format, len(d.Salt))
	}
	copy(m.salt[:], salt)
	if len(d.Shards) == 0 || len(d.Shards) > maxShards {
		return nil, fmt.Errorf("shard: %w: %d shards, want 1 to %d", bulkhead.ErrMalformed, len(d.Shards), maxShards)
	}
	owned := make([]bool, Slots)
	for i, e := range d.Shards {
		m.Shards = append(m.Shards, Shard{Name: e.Name, URLs: e.URLs})
		slots, err := parseSlots(e.Slots)
		if err != nil {
			return nil, fmt.Errorf("shard: %w: slots of %.40q: %v", bulkhead.ErrMalformed, e.Name, err)
		}
		for _, s := range slots {
			if owned[s] {
				return nil, fmt.Errorf("shard: %w: slot %d has two shards", bulkhead.ErrMalformed, s)
			}
			owned[s], m.owner[s] = true, uint8(i)
		}
	}
	if s := slices.Index(owned, false); s >= 0 {
		return nil, fmt.Errorf("shard: %w: slot %d has no shard", bulkhead.ErrMalformed, s)
	}
	return m, m.validate()
}

// validate checks everything but the owners of slots.
func (m *Map) validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("shard: %w: %s", bulkhead.ErrMalformed, fmt.Sprintf(format, args...))
	}
	if m.Version == 0 || m.Note.At.Year() < 1970 || m.Note.At.Year() > 9999 {
		return fail("version %d of %v", m.Version, m.Note.At)
	}
	for _, text := range []string{m.Note.By, m.Note.What} {
		if len(text) > maxText || !utf8.ValidString(text) {
			return fail("a note of %d bytes, limit %d", len(text), maxText)
		}
	}
	addresses := make(map[string]bool)
	for i, s := range m.Shards {
		switch {
		case !shardName.MatchString(s.Name):
			return fail("name of a shard %.40q, want 1 to 32 of a to z, 0 to 9 and \"-\" between them", s.Name)
		case i > 0 && m.Shards[i-1].Name >= s.Name:
			return fail("shards %q and %q are not in order", m.Shards[i-1].Name, s.Name)
		case len(s.URLs) == 0 || len(s.URLs) > maxURLs:
			return fail("shard %q has %d addresses, want 1 to %d", s.Name, len(s.URLs), maxURLs)
		}
		for _, address := range s.URLs {
			if err := checkURL(address); err != nil {
				return fail("shard %q: %v", s.Name, err)
			}
			if addresses[address] {
				return fail("address %s is there twice", address)
			}
			addresses[address] = true
		}
	}
	if m.index(m.Default) < 0 {
		return fail("default %.40q is no shard", m.Default)
	}
	return nil
}

// checkURL checks the address of a node's HTTP door.
func checkURL(address string) error {
	at, err := url.Parse(address)
	switch {
	case len(address) > maxURL || !utf8.ValidString(address):
		return fmt.Errorf("an address of %d bytes, limit %d", len(address), maxURL)
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "":
		return fmt.Errorf("%.80q is not the URL of a node, like \"https://node.example.com\"", address)
	case at.User != nil || at.RawQuery != "" || at.ForceQuery || at.Fragment != "":
		return errors.New("an address with a user, a query or a fragment")
	}
	return nil
}

// parseSlots reads numbers and ranges of slots.
func parseSlots(text string) (slots []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := parseSlot(from)
		last, err2 := parseSlot(to)
		if err = errors.Join(err, err2); err != nil {
			return nil, err
		}
		if first > last || isRange && first == last || len(slots) > 0 && first <= slots[len(slots)-1] {
			return nil, fmt.Errorf("%.20q is not ascending", part)
		}
		for s := first; s <= last; s++ {
			slots = append(slots, s)
		}
	}
	return slots, nil
}

func parseSlot(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= Slots || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("%.20q is no slot", text)
	}
	return n, nil
}

// formatSlots is the reverse of parseSlots.
func formatSlots(slots []int) string {
	var out []byte
	for i := 0; i < len(slots); {
		j := i
		for j+1 < len(slots) && slots[j+1] == slots[j]+1 {
			j++
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(slots[i]), 10)
		if j > i {
			out = append(out, '-')
			out = strconv.AppendInt(out, int64(slots[j]), 10)
		}
		i = j + 1
	}
	return string(out)
}

// Text returns the map in JSON.
func (m *Map) Text() []byte {
	d := document{Format: format, Version: m.Version, Salt: hex.EncodeToString(m.salt[:]), Default: m.Default,
		At: m.Note.At, By: m.Note.By, What: m.Note.What}
	for _, s := range m.Shards {
		d.Shards = append(d.Shards, element{Name: s.Name, URLs: s.URLs, Slots: formatSlots(m.SlotsOf(s.Name))})
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // validate has refused what JSON does not hold
	}
	return text
}

// Slot returns the slot of a mailbox in the form of [bulkhead.Mailbox]. A sender who does not have
// the map cannot choose mailboxes with one slot.
func (m *Map) Slot(mailbox string) int {
	sum := sha256.Sum256(append(m.salt[:len(m.salt):len(m.salt)], mailbox...))
	return int(binary.BigEndian.Uint16(sum[:])) % Slots
}

// Owner returns the name of the shard that has a slot.
func (m *Map) Owner(slot int) string { return m.Shards[m.owner[slot]].Name }

// Of returns the name of the shard that has a mailbox, which is in the form of [bulkhead.Mailbox].
func (m *Map) Of(mailbox string) string { return m.Owner(m.Slot(mailbox)) }

// SlotsOf returns the slots of a shard, ascending.
func (m *Map) SlotsOf(name string) (slots []int) {
	for s := range m.owner {
		if m.Owner(s) == name {
			slots = append(slots, s)
		}
	}
	return slots
}

// Has reports whether a shard is in the map.
func (m *Map) Has(name string) bool { return m.index(name) >= 0 }

// index returns the index of a shard in Shards, -1 if it is not there.
func (m *Map) index(name string) int {
	return slices.IndexFunc(m.Shards, func(s Shard) bool { return s.Name == name })
}
