package lists

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// DefaultMaxBytes is the default size limit of a list file: 4 GiB hold a thousand million entries.
const DefaultMaxBytes = 4 << 30

// AllowSuffix is appended to the name of a list to name its allow list.
const AllowSuffix = ".allow"

const (
	maxAllow    = 1 << 20  // entries of an allow list
	maxAllowLen = 64 << 20 // bytes of an allow list
)

// A Tone is the purpose of a list.
type Tone string

// The tones.
const (
	Black Tone = "black" // unwanted
	White Tone = "white" // wanted
	Grey  Tone = "grey"  // suspicious
)

// Valid reports whether t is one of the constants.
func (t Tone) Valid() bool { return t == Black || t == White || t == Grey }

// A Structure is the kind of a list's filter.
type Structure string

// The structures.
const (
	// TwoPart is the filter of Jiang & Zhao. It accepts further entries, and such lists can be
	// merged.
	TwoPart Structure = "two-part"
	// Bits is the array of one cache line for each entry in which a node keeps signatures. It is
	// larger and faster, it accepts further entries, and such lists can be merged.
	Bits Structure = "bits"
	// Fuse is a binary fuse filter: smaller, and immutable once it is built.
	Fuse Structure = "fuse"
)

// ErrStatic means that a list of structure [Fuse] cannot be changed, merged or compared.
var ErrStatic = errors.New("the list cannot be changed")

// A Source is one text file that went into a list.
type Source struct {
	Name    string    `json:"name"`    // its name without folders
	SHA256  string    `json:"sha256"`  // of its content
	Entries uint64    `json:"entries"` // lines taken
	Read    time.Time `json:"read"`
}

// Meta is the description that a list file carries.
type Meta struct {
	Format     int               `json:"format"` // 1
	Name       string            `json:"name"`
	Tone       Tone              `json:"tone"`
	Reason     string            `json:"reason,omitempty"` // shown to clients that are refused
	Built      time.Time         `json:"built"`
	Updated    time.Time         `json:"updated"` // time of the last add or merge; Built if there was none
	Error      float64           `json:"error"`   // wanted false-positive rate of one element
	Capacity   uint64            `json:"capacity"`
	Kinds      map[string]uint64 `json:"kinds"` // entries of each kind, including repetitions
	Subdomains bool              `json:"subdomains"`
	Hash       string            `json:"hash,omitempty"`
	V4         []int             `json:"v4,omitempty"` // lengths of the IPv4 networks, longest first
	V6         []int             `json:"v6,omitempty"`
	Sources    []Source          `json:"sources"`
}

const metaFormat = 1

// validate checks the description in a file.
func (m *Meta) validate() error {
	switch {
	case m.Format != metaFormat:
		return fmt.Errorf("format %d, want %d", m.Format, metaFormat)
	case !m.Tone.Valid():
		return fmt.Errorf("tone %.20q is none of black, white, grey", m.Tone)
	case m.Hash != NoHash && digestSize(m.Hash) == 0:
		return fmt.Errorf("hash %.20q is unknown", m.Hash)
	case len(m.Name) > 255 || len(m.Reason) > 255 || strings.ContainsFunc(m.Name+m.Reason,
		func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("name or reason is longer than 255 bytes, or has control characters")
	case !validLengths(m.V4, 32) || !validLengths(m.V6, 128):
		return errors.New("lengths of networks out of range or out of order")
	}
	return nil
}

func validLengths(lengths []int, most int) bool {
	for i, n := range lengths {
		if n < 0 || n > most || i > 0 && n >= lengths[i-1] {
			return false
		}
	}
	return true
}

// A List is one list with its allow list, read-only. Its methods may be called concurrently.
type List struct {
	// One of these is set, depending on the structure; the others are nil.
	filter *filter.TwoPart
	bits   *filter.StringBits
	fuse   *filter.Fuse
	insert func([]byte) bool // adds to a fuse filter that is being built
	meta   Meta
	rate   float64 // false-positive rate of one element
	allow  map[string]struct{}
	values table // codes and texts for DNS
	// lengths holds, in V4 and V6, the lengths of the networks of filter and allow list.
	lengths Meta
}

// Open reads the list file at path, its allow list and its codes, if there are any. It returns an error if the
// file is damaged, larger than limit bytes or not a list, before it allocates memory for it.
func Open(path string, limit int64) (*List, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	defer f.Close()
	l, err := Read(bufio.NewReaderSize(f, 1<<20), limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.allow, err = readAllow(path + AllowSuffix); err != nil {
		return nil, err
	}
	if err := l.readCodes(path); err != nil {
		return nil, err
	}
	if l.meta.Hash != NoHash {
		// Look-ups by hash must find the allowed entries as well.
		for _, text := range slices.Collect(maps.Keys(l.allow)) {
			l.allow[digest(l.meta.Hash, text)] = struct{}{}
		}
	}
	l.lengths = Meta{V4: slices.Clone(l.meta.V4), V6: slices.Clone(l.meta.V6)}
	for text := range l.allow {
		if p, err := netip.ParsePrefix(text); err == nil {
			l.lengths.noteLength(p.Bits(), p.Addr().Is6())
		}
	}
	return l, nil
}

// Read reads a list file of at most limit bytes, without an allow list.
func Read(r io.Reader, limit int64) (*List, error) {
	in := bufio.NewReader(r)
	l := &List{}
	var err error
	switch head, _ := in.Peek(6); {
	case filter.IsFuse(head):
		l.fuse, err = filter.DecodeFuse(in, limit)
	case filter.IsStringBits(head):
		l.bits, err = filter.DecodeStringBits(in, limit)
	default:
		l.filter, err = filter.DecodeTwoPart(in, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	if _, err := in.ReadByte(); err == nil {
		return nil, fmt.Errorf("lists: %w: bytes after the end", filter.ErrCorrupt)
	}
	l.rate = l.set().ErrorRate()
	if err := json.Unmarshal(l.set().Meta(), &l.meta); err != nil {
		return nil, fmt.Errorf("lists: the filter is not a list: %v", err)
	}
	if err := l.meta.validate(); err != nil {
		return nil, fmt.Errorf("lists: the filter is not a list: %w", err)
	}
	if l.meta.Kinds == nil {
		l.meta.Kinds = make(map[string]uint64)
	}
	l.lengths = l.meta
	return l, nil
}

// A set is the filter of a list, whatever its structure.
type set interface {
	Contains([]byte) bool
	ContainsString(string) bool
	Count() uint64
	Bytes() uint64
	ErrorRate() float64
	Meta() []byte
	SetMeta([]byte) error
	Encode(io.Writer) error
}

func (l *List) set() set {
	switch l.Structure() {
	case Fuse:
		return l.fuse
	case Bits:
		return l.bits
	}
	return twoPart{l.filter}
}

// emptyLike gives l an empty filter of the size and key of o's filter, which can be changed.
func (l *List) emptyLike(o *List) (err error) {
	if o.bits != nil {
		l.bits, err = o.bits.Empty()
	} else {
		l.filter, err = o.filter.Empty()
	}
	return err
}

// merge adds everything in o to l's filter. Both filters must be changeable.
func (l *List) merge(o *List) error {
	switch {
	case l.Structure() != o.Structure():
		return fmt.Errorf("%w: a %s list into a %s one", filter.ErrGeometry, o.Structure(), l.Structure())
	case l.bits != nil:
		return l.bits.Merge(o.bits)
	}
	return l.filter.Merge(o.filter)
}

// put adds an element to the filter and reports whether it was new.
func (l *List) put(element []byte) bool {
	switch {
	case l.insert != nil:
		return l.insert(element)
	case l.bits != nil:
		return l.bits.Add(element)
	}
	return l.filter.Add(element)
}

type twoPart struct{ *filter.TwoPart }

func (t twoPart) Bytes() uint64 { return t.Shape().Bytes() }

// Structure returns the structure of the list's filter.
func (l *List) Structure() Structure {
	switch {
	case l.fuse != nil:
		return Fuse
	case l.bits != nil:
		return Bits
	}
	return TwoPart
}

// changeable returns an error that wraps [ErrStatic] if nothing can be added to the list.
func (l *List) changeable() error {
	if l.fuse != nil {
		return fmt.Errorf("lists: %w: %q is a fuse list; build it anew", ErrStatic, l.meta.Name)
	}
	return nil
}

// readAllow reads an allow list: text with one entry on each line. A missing file is an empty list.
func readAllow(path string) (map[string]struct{}, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	defer f.Close()
	allow := make(map[string]struct{})
	err = eachLine(io.LimitReader(f, maxAllowLen), func(n int, line string) error {
		e, err := ParseEntry(line)
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if len(allow) == maxAllow {
			return fmt.Errorf("lists: %s: more than %d entries", path, maxAllow)
		}
		allow[e.Text] = struct{}{}
		return nil
	})
	return allow, err
}

// Meta returns the description of the list. The caller must not modify its slices and maps.
func (l *List) Meta() Meta { return l.meta }

// Count returns how many different elements the filter holds. For a two-part list it is too low by
// about the error rate. For a list of bits it is an estimate from the number of set bits.
func (l *List) Count() uint64 { return l.set().Count() }

// Bytes returns the memory size of the filter.
func (l *List) Bytes() uint64 { return l.set().Bytes() }

// Shape describes the filter in words.
func (l *List) Shape() string {
	if l.fuse != nil {
		return fmt.Sprintf("binary fuse, fingerprints of %d bits", l.fuse.Width())
	}
	if l.bits != nil {
		return l.bits.Geometry().String()
	}
	s := l.filter.Shape()
	return fmt.Sprintf("two-part, %d + %d bits, %d + %d hashes, eigenvalue %v", s.M1, s.M2, s.K, s.D, s.Eigen)
}

// ErrorRate returns the probability that one element that was never added is found, at the present
// fill.
func (l *List) ErrorRate() float64 { return l.rate }

// Allowed returns how many entries the allow list has.
func (l *List) Allowed() int { return len(l.allow) }

// A Match describes how an entry was found.
type Match struct {
	List    string // name of the list
	Tone    Tone
	Element string // the element found: the entry itself, a parent domain, a network, a folder
	Reason  string
	Built   time.Time
	// Error is the probability that an entry that was never added would have been found, over
	// all elements that were looked up.
	Error float64
	// Value is the element's own code and text, or else the list's.
	Value Value
}

// Find reports whether e, or an element that stands for it, is in the list while e is not in the
// allow list.
func (l *List) Find(e Entry) (Match, bool) {
	found, asked := l.find(e)
	if found == "" {
		return Match{}, false
	}
	return Match{
		List: l.meta.Name, Tone: l.meta.Tone, Element: found, Reason: l.meta.Reason,
		Built: l.meta.Updated, Error: -math.Expm1(float64(asked) * math.Log1p(-l.rate)),
		Value: l.valueOf(e.Kind, found).Or(l.values.all),
	}, true
}

// find returns the element that Find matches, or "", and how many elements were looked up.
func (l *List) find(e Entry) (found string, asked int) {
	allowed := false
	l.elements(e, func(element string) bool {
		if _, allowed = l.allow[element]; allowed {
			return false
		}
		asked++
		if found == "" && l.contains(e.Kind, element) {
			found = element
		}
		return true // for the allow list, and to count the look-ups
	})
	if allowed {
		found = ""
	}
	return found, asked
}

// hasAddr reports whether Find finds the entry of an address. It writes all networks around the
// address into one buffer: DNS clients look up a hundred thousand addresses a second, and a string
// for each would be garbage.
func (l *List) hasAddr(a netip.Addr) bool {
	if l.meta.Hash != NoHash {
		found, _ := l.find(AddrEntry(a))
		return found != ""
	}
	a = a.Unmap().WithZone("")
	lengths := l.lengths.V4
	if a.Is6() {
		lengths = l.lengths.V6
	}
	var buf [64]byte
	found := false
	for _, bits := range lengths {
		p, err := a.Prefix(bits)
		if err != nil {
			break
		}
		text := p.AppendTo(buf[:0])
		if _, allowed := l.allow[string(text)]; allowed {
			return false
		}
		found = found || l.containsText(text)
	}
	return found
}

func (l *List) contains(kind Kind, element string) bool {
	element = l.element(Entry{kind, element})
	switch {
	case l.fuse != nil:
		return l.fuse.ContainsString(element)
	case l.bits != nil:
		return l.bits.ContainsString(element)
	}
	return l.filter.ContainsString(element)
}

// containsText looks up a text that was made for one look-up. Passed through an interface, the text
// would be allocated.
func (l *List) containsText(text []byte) bool {
	switch {
	case l.fuse != nil:
		return l.fuse.Contains(text)
	case l.bits != nil:
		return l.bits.Contains(text)
	}
	return l.filter.Contains(text)
}

// has reports whether e itself is in the filter.
func (l *List) has(e Entry) bool { return l.contains(e.Kind, e.Text) }

// encode writes the list with its present metadata.
func (l *List) encode(w io.Writer) error {
	meta := l.meta
	b, err := json.Marshal(meta)
	for err == nil && len(b) > filter.MaxMeta && len(meta.Sources) > 1 {
		// After many merges the oldest sources are dropped first.
		meta.Sources = meta.Sources[1:]
		b, err = json.Marshal(meta)
	}
	if err == nil {
		err = l.set().SetMeta(b)
	}
	if err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return l.set().Encode(w)
}

// noteLength records the length of a network.
func (m *Meta) noteLength(bits int, v6 bool) {
	lengths := &m.V4
	if v6 {
		lengths = &m.V6
	}
	i, found := slices.BinarySearchFunc(*lengths, bits, func(have, want int) int { return want - have })
	if !found {
		*lengths = slices.Insert(*lengths, i, bits)
	}
}
