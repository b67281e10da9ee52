package dcc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// Values of whitelist entries, besides Many, White and White2.
const (
	whiteMX     = 0x00FFFFF5 // a relay of ours: look behind it
	whiteMXDCC  = 0x00FFFFF6 // a relay that has reported already: query only
	whiteSubmit = 0x00FFFFF7 // our own users
)

// A Whitelist is a file of DCC's: whitelist of a server, whiteclnt of a client.
// It is immutable. A nil *Whitelist is empty.
//
// Source: docs/specs/dcc.md#whitelists.
type Whitelist struct {
	sums    map[Checksum]uint32
	env     map[[16]byte]uint32 // env_To
	subst   map[substitute]uint32
	headers []string // that substitute entries name, lower case
	ranges  []addrRange
	// Options are the options in the file that affect messages.
	Options WhiteOptions
	// Ignored lists the options in the file that have no effect here.
	Ignored []string

	included []whiteSource
}

type substitute struct {
	header string
	sum    [16]byte
}

type addrRange struct {
	first, last netip.Addr
	value       uint32
}

// WhiteOptions are the options of a whitelist. A nil pointer means that the file does
// not set the option.
type WhiteOptions struct {
	DCC        *bool // dcc-on, dcc-off
	Grey       *bool // greylist-on, greylist-off
	NoDiscard  bool  // no-forced-discard
	Thresholds map[digests.Type]uint32
	// Trap makes every message spam: spam-trap-discard or spam-trap-reject.
	Trap       *bool
	TrapReject bool
}

// Limits of a whitelist.
const (
	maxWhiteEntries = 1 << 20
	maxWhiteDepth   = 4 // files that include each other
	maxWhiteLine    = 4096
	maxServerBlock  = 1 << 16 // addresses in a block of a server's file
)

// ReadWhitelist reads a whitelist and the files that it includes, by their names within
// files; nil forbids include. Errors name file and line. A server's list, unlike a
// client's, can only be queried for sums: its address blocks may hold at most 65,536
// addresses.
func ReadWhitelist(files fs.FS, name string, r io.Reader, server bool) (*Whitelist, error) {
	w := &whiteReader{files: files, server: server, list: &Whitelist{
		sums: make(map[Checksum]uint32), env: make(map[[16]byte]uint32), subst: make(map[substitute]uint32),
	}}
	if err := w.read(name, r, 0); err != nil {
		return nil, err
	}
	return w.list, nil
}

type whiteReader struct {
	files   fs.FS
	server  bool
	list    *Whitelist
	entries int
}

func (w *whiteReader) read(name string, r io.Reader, depth int) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, maxWhiteLine), maxWhiteLine)
	value := uint32(0) // of the last line that had one
	for n := 1; in.Scan(); n++ {
		if err := w.line(in.Text(), &value, depth); err != nil {
			return fmt.Errorf("dcc: whitelist %s line %d: %w", name, n, err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("dcc: whitelist %s: %w", name, err)
	}
	return nil
}

func (w *whiteReader) line(text string, value *uint32, depth int) error {
	if at := strings.IndexByte(text, '#'); at >= 0 {
		text = text[:at]
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil
	}
	if text[0] != ' ' && text[0] != '\t' {
		word := strings.ToLower(fields[0])
		fields = fields[1:]
		switch word {
		case "include":
			return w.include(fields, depth)
		case "option":
			return w.option(fields)
		}
		v, err := parseWhiteValue(word)
		if err != nil {
			return err
		}
		*value = v
	} else if *value == 0 {
		return errors.New("a line that begins with a blank needs one with a count before it")
	}
	if len(fields) < 2 {
		return errors.New("want a type and a value")
	}
	if w.entries++; w.entries > maxWhiteEntries {
		return fmt.Errorf("more than %d entries", maxWhiteEntries)
	}
	return w.entry(*value, fields, strings.TrimSpace(text))
}

func parseWhiteValue(word string) (uint32, error) {
	switch word {
	case "ok":
		return White, nil
	case "ok2":
		return White2, nil
	case "many":
		return Many, nil
	case "mx":
		return whiteMX, nil
	case "mxdcc":
		return whiteMXDCC, nil
	case "submit":
		return whiteSubmit, nil
	}
	if n, err := strconv.ParseUint(word, 10, 32); err == nil && n > 0 && n < Many {
		return uint32(n), nil
	}
	return 0, fmt.Errorf("%.40q is not a count: want ok, ok2, many, mx, mxdcc, submit, include or option", word)
}

func (w *whiteReader) include(fields []string, depth int) error {
	if len(fields) != 1 {
		return errors.New("include wants one file")
	}
	if w.files == nil || depth+1 >= maxWhiteDepth {
		return fmt.Errorf("include is not allowed here (at most %d files deep)", maxWhiteDepth)
	}
	name := path.Clean(strings.TrimPrefix(fields[0], "./"))
	f, err := w.files.Open(name)
	if err != nil {
		return fmt.Errorf("include: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("include: %w", err)
	}
	w.list.included = append(w.list.included, whiteSource{name, info.ModTime(), info.Size()})
	return w.read(name, f, depth+1)
}

// entry adds a type and a value; line is the whole line, for values that contain blanks.
func (w *whiteReader) entry(value uint32, fields []string, line string) error {
	kind := strings.ToLower(fields[0])
	if value == whiteMX || value == whiteMXDCC || value == whiteSubmit {
		if kind != "ip" || w.server {
			return errors.New("mx, mxdcc and submit are for addresses in a client's file")
		}
	}
	_, rest, _ := strings.Cut(line, fields[0])
	rest = strings.TrimSpace(rest)
	switch kind {
	case "ip":
		return w.address(value, fields[1:])
	case "env_to":
		w.list.env[digests.ValueSum("", rest)] = value
	case "hex":
		return w.hex(value, fields[1:])
	case "substitute":
		if len(fields) < 3 {
			return errors.New("substitute wants a header and a value")
		}
		header := strings.ToLower(strings.TrimSuffix(fields[1], ":"))
		_, text, _ := strings.Cut(rest, fields[1])
		w.substitute(header, digests.ValueSum(header, text), value)
	default:
		t, err := parseWhiteType(kind)
		if err != nil {
			return err
		}
		w.list.sums[Checksum{t, digests.ValueSum("", rest)}] = value
	}
	return nil
}

func (w *whiteReader) substitute(header string, sum [16]byte, value uint32) {
	if w.server {
		w.list.sums[Checksum{digests.TypeSubstitute, sum}] = value
		return
	}
	w.list.subst[substitute{header, sum}] = value
	if !slices.Contains(w.list.headers, header) {
		w.list.headers = append(w.list.headers, header)
	}
}

func parseWhiteType(kind string) (digests.Type, error) {
	for t := digests.TypeEnvFrom; t <= digests.TypeFuz2; t++ {
		if strings.EqualFold(t.String(), kind) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("unknown type %.40q", kind)
}

func (w *whiteReader) hex(value uint32, fields []string) error {
	if len(fields) != 5 {
		return errors.New("hex wants a type and four words")
	}
	t := digests.TypeIP
	if !strings.EqualFold(fields[0], "ip") {
		var err error
		if t, err = parseWhiteType(strings.ToLower(fields[0])); err != nil {
			return err
		}
	}
	c := Checksum{Type: t}
	for i, word := range fields[1:] {
		v, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return fmt.Errorf("%.40q is not a word of up to 8 hexadecimal digits", word)
		}
		binary.BigEndian.PutUint32(c.Sum[4*i:], uint32(v))
	}
	w.list.sums[c] = value
	return nil
}

func (w *whiteReader) address(value uint32, fields []string) error {
	r, err := parseRange(strings.Join(fields, ""))
	if err != nil {
		return err
	}
	r.value = value
	if !w.server {
		w.list.ranges = append(w.list.ranges, r)
		return nil
	}
	n := 0
	for a := r.first; ; a = a.Next() {
		if n++; n > maxServerBlock {
			return fmt.Errorf("block %s to %s has more than %d addresses", r.first, r.last, maxServerBlock)
		}
		w.list.sums[Checksum{digests.TypeIP, digests.IPSum(a)}] = value
		if a == r.last {
			return nil
		}
	}
}

// parseRange reads an address, a range a-b or a block in CIDR notation.
func parseRange(text string) (addrRange, error) {
	if first, last, ok := strings.Cut(text, "-"); ok {
		a, err1 := netip.ParseAddr(first)
		b, err2 := netip.ParseAddr(last)
		a, b = a.Unmap(), b.Unmap()
		if err1 != nil || err2 != nil || a.BitLen() != b.BitLen() || b.Less(a) {
			return addrRange{}, fmt.Errorf("%.80q is not a range of addresses", text)
		}
		return addrRange{first: a, last: b}, nil
	}
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return addrRange{}, fmt.Errorf("%.80q is not a block of addresses", text)
		}
		first := p.Masked().Addr()
		last := first.AsSlice()
		for i := p.Bits(); i < first.BitLen(); i++ {
			last[i/8] |= 1 << (7 - i%8)
		}
		end, _ := netip.AddrFromSlice(last)
		return addrRange{first: first.Unmap(), last: end.Unmap()}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return addrRange{}, fmt.Errorf("%.80q is not an address (host names are not looked up)", text)
	}
	return addrRange{first: a.Unmap(), last: a.Unmap()}, nil
}

func (w *whiteReader) option(fields []string) error {
	if len(fields) == 0 {
		return errors.New("option wants a name")
	}
	o := &w.list.Options
	switch name := strings.ToLower(fields[0]); name {
	case "dcc-on":
		o.DCC = new(true)
	case "dcc-off":
		o.DCC = new(false)
	case "greylist-on":
		o.Grey = new(true)
	case "greylist-off":
		o.Grey = new(false)
	case "no-forced-discard":
		o.NoDiscard = true
	case "forced-discard-ok":
		o.NoDiscard = false
	case "spam-trap-discard", "spam-trap-reject":
		o.Trap, o.TrapReject = new(true), name == "spam-trap-reject"
	case "not-spam-trap":
		o.Trap = new(false)
	case "threshold":
		return w.threshold(fields[1:])
	case "log-all", "log-normal", "log-subdirectory-day", "log-subdirectory-hour", "log-subdirectory-minute",
		"greylist-log-on", "greylist-log-off", "dcc-rep-on", "dcc-rep-off", "mta-first", "mta-last",
		"dnsbl1-on", "dnsbl1-off", "dnsbl2-on", "dnsbl2-off", "dnsbl3-on", "dnsbl3-off", "dnsbl4-on", "dnsbl4-off":
		w.list.Ignored = append(w.list.Ignored, name)
	default:
		return fmt.Errorf("unknown option %.40q", fields[0])
	}
	return nil
}

func (w *whiteReader) threshold(fields []string) error {
	t, err := cutThreshold(strings.Join(fields, ""))
	if err != nil {
		return err
	}
	if w.list.Options.Thresholds == nil {
		w.list.Options.Thresholds = make(map[digests.Type]uint32)
	}
	maps.Copy(w.list.Options.Thresholds, t)
	return nil
}

func cutThreshold(text string) (map[digests.Type]uint32, error) {
	kind, count, ok := strings.Cut(text, ",")
	if !ok {
		return nil, fmt.Errorf("%.40q is not type,count", text)
	}
	return parseThreshold(strings.TrimSpace(kind), strings.TrimSpace(count))
}

// parseThreshold reads a threshold; the type CMN stands for Body, Fuz1 and
// Fuz2, the count "never" for none.
func parseThreshold(kind, text string) (map[digests.Type]uint32, error) {
	var n uint64
	switch strings.ToLower(text) {
	case "never":
	case "many":
		n = Many
	default:
		var err error
		if n, err = strconv.ParseUint(text, 10, 32); err != nil || n == 0 || n > Many {
			return nil, fmt.Errorf("%.40q is not a count, many or never", text)
		}
	}
	if strings.EqualFold(kind, "cmn") {
		return map[digests.Type]uint32{digests.TypeBody: uint32(n), digests.TypeFuz1: uint32(n),
			digests.TypeFuz2: uint32(n)}, nil
	}
	t, err := parseWhiteType(strings.ToLower(kind))
	if err != nil {
		return nil, err
	}
	return map[digests.Type]uint32{t: uint32(n)}, nil
}

// lookup returns the value of a checksum in the list.
func (w *Whitelist) lookup(c *Checksum) (uint32, bool) {
	if w == nil || len(w.sums) == 0 {
		return 0, false
	}
	v, ok := w.sums[*c]
	return v, ok
}

// address returns the value of an address: the value of the first entry that contains it.
func (w *Whitelist) address(a netip.Addr) (uint32, bool) {
	if w == nil || !a.IsValid() {
		return 0, false
	}
	a = a.Unmap()
	for _, r := range w.ranges {
		if r.first.BitLen() == a.BitLen() && !a.Less(r.first) && !r.last.Less(a) {
			return r.value, true
		}
	}
	return w.lookup(&Checksum{digests.TypeIP, digests.IPSum(a)})
}

// recipient returns the value of an envelope recipient.
func (w *Whitelist) recipient(addr string) (uint32, bool) {
	if w == nil || len(w.env) == 0 {
		return 0, false
	}
	v, ok := w.env[digests.ValueSum("", addr)]
	return v, ok
}
