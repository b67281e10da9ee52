package lists

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CodesSuffix is appended to the name of a list to name the file with the codes and texts of its entries.
const CodesSuffix = ".codes"

const (
	maxCodes    = 1 << 20  // entries with codes or texts of their own
	maxCodesLen = 64 << 20 // bytes of a file of codes
	maxText     = 255      // bytes of a text: one character string of a TXT record
)

// A Value is the DNS answer about an entry: a return code and a text, as in the files of rbldnsd. Both may be
// missing.
type Value struct {
	Code netip.Addr // in 127.0.0.0/8; the zero Addr means none
	Text string     // of up to 255 bytes, in which "$" stands for the queried name and "$$" for "$"
}

var (
	codes      = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 0}), 8)
	errorCodes = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 255, 255, 0}), 24)
	notListed  = netip.AddrFrom4([4]byte{127, 0, 0, 1})
)

// ParseValue reads ":CODE:TEXT", ":CODE" or "::TEXT". CODE is an address, or a number N of 2 to 255 that stands for
// 127.0.0.N. Clients read 127.0.0.1 and 127.255.255.0/24 as errors, so they are refused.
func ParseValue(text string) (Value, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), ":")
	if !ok {
		return Value{}, fmt.Errorf("lists: %.80q is not \":CODE:TEXT\"", text)
	}
	code, words, _ := strings.Cut(rest, ":")
	v := Value{Text: strings.TrimSpace(words)}
	switch {
	case len(v.Text) > maxText:
		return Value{}, fmt.Errorf("lists: text of %d bytes, limit %d", len(v.Text), maxText)
	case !utf8.ValidString(v.Text) || strings.ContainsFunc(v.Text, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return Value{}, fmt.Errorf("lists: text %.80q is not UTF-8 or has control characters", v.Text)
	}
	if code == "" {
		if v.Text == "" {
			return Value{}, fmt.Errorf("lists: %.80q has neither a code nor a text", text)
		}
		return v, nil
	}
	if n, err := strconv.ParseUint(code, 10, 8); err == nil {
		v.Code = netip.AddrFrom4([4]byte{127, 0, 0, byte(n)})
	} else if v.Code, err = netip.ParseAddr(code); err != nil {
		return Value{}, fmt.Errorf("lists: code %.40q is neither an address like 127.0.0.2 nor a number of 2 to 255", code)
	}
	if !codes.Contains(v.Code) || errorCodes.Contains(v.Code) || v.Code == notListed ||
		v.Code == codes.Addr() {
		return Value{}, fmt.Errorf("lists: code %v, want one of 127.0.0.0/8 except 127.0.0.0, 127.0.0.1 and "+
			"127.255.255.0/24, which clients read as errors", v.Code)
	}
	return v, nil
}

// String returns v in the form that [ParseValue] reads, "" for the zero Value.
func (v Value) String() string {
	switch {
	case v == Value{}:
		return ""
	case !v.Code.IsValid():
		return "::" + v.Text
	}
	return ":" + v.Code.String() + ":" + v.Text
}

// Or returns v with the code and text of d where v has none.
func (v Value) Or(d Value) Value {
	if !v.Code.IsValid() {
		v.Code = d.Code
	}
	if v.Text == "" {
		v.Text = d.Text
	}
	return v
}

// valueAt returns where the value of a line begins, or -1. "::1" at the start of a line is an address.
func valueAt(line string) int {
	for i := range len(line) {
		if line[i] != ':' {
			continue
		}
		if i == 0 && len(line) > 1 && line[1] != ':' || i > 0 && (line[i-1] == ' ' || line[i-1] == '\t') {
			return i
		}
	}
	return -1
}

// errFull ends a build, also one that skips bad lines.
var errFull = fmt.Errorf("lists: more than %d entries or %d bytes of codes and texts by entry; give entries of one "+
	"code a list of their own, whose first line is the code", maxCodes, maxCodesLen)

// A table holds the values of the entries of one list, exactly: a filter holds none. The value of most
// entries, all, takes no place in it.
type table struct {
	all   Value
	own   map[string]Value  // by the element in the filter
	texts map[string]string // of own, each once; nil after reading a file
	size  int               // bytes of own as a file, about
}

// set gives an element a value in place of its former one.
func (t *table) set(element string, v Value) error {
	if old, ok := t.own[element]; ok {
		t.size -= rowSize(element, old)
		delete(t.own, element)
	}
	// The value of the whole list is not the entry's own: a zone may set another one for the list.
	if v.Code == t.all.Code {
		v.Code = netip.Addr{}
	}
	if v.Text == t.all.Text {
		v.Text = ""
	}
	if v == (Value{}) {
		return nil
	}
	if t.own == nil {
		t.own = make(map[string]Value)
	}
	if t.texts == nil {
		t.texts = make(map[string]string)
	}
	size := t.size + rowSize(element, v)
	if len(t.own) == maxCodes || size > maxCodesLen {
		return errFull
	}
	t.size = size
	text, ok := t.texts[v.Text]
	if !ok {
		text = strings.Clone(v.Text) // not the line around it
		t.texts[text] = text
	}
	v.Text = text
	t.own[strings.Clone(element)] = v
	return nil
}

// rowSize bounds the bytes of a row: the element, a space, the value and a line feed.
func rowSize(element string, v Value) int {
	return len(element) + len(" :127.255.255.255:\n") + len(v.Text)
}

// A lines reads the lines of one text file into the table of a list.
type lines struct {
	list *List
	all  Value // of the entries that follow
	lead bool  // the next value is also the list's
}

// next reads a line and notes its value. It returns the zero Entry for a line that has only a value: it holds for
// the entries after it.
func (r *lines) next(line string) (Entry, error) {
	e, v, err := r.list.parseLine(line)
	if err != nil {
		return Entry{}, err
	}
	if e.Kind == 0 {
		if r.all = v; r.lead {
			r.list.values.all = v
		}
		r.lead = false
		return e, nil
	}
	r.lead = false
	return e, r.list.values.set(r.list.element(e), v.Or(r.all))
}

// parseLine reads an entry, an entry with a value, or a value alone.
func (l *List) parseLine(line string) (e Entry, v Value, err error) {
	at := valueAt(line)
	if at < 0 {
		if strings.HasPrefix(line, "$") {
			return e, v, fmt.Errorf("lists: %.40q: settings of a zone, such as TTL and NS, belong in [[dnsbl.zone]]", line)
		}
		e, err = l.parse(line)
		return e, v, err
	}
	if v, err = ParseValue(line[at:]); err == nil && at > 0 {
		e, err = l.parse(strings.TrimSpace(line[:at]))
	}
	return e, v, err
}

// element returns what stands for e in the filter.
func (l *List) element(e Entry) string {
	if l.meta.Hash != NoHash && e.Kind != Digest {
		return digest(l.meta.Hash, e.Text)
	}
	return e.Text
}

// valueOf returns the value of an element that was found in a look-up of an entry of a kind, without the list's.
func (l *List) valueOf(kind Kind, found string) Value {
	if len(l.values.own) == 0 {
		return Value{}
	}
	if kind != Digest {
		kind = 0
	}
	return l.values.own[l.element(Entry{kind, found})]
}

// Value returns the value of the entries without their own.
func (l *List) Value() Value { return l.values.all }

// Valued returns how many entries have a code or text of their own.
func (l *List) Valued() int { return len(l.values.own) }

// readCodes reads the codes of the list at path. A missing file holds none.
func (l *List) readCodes(path string) error {
	path += CodesSuffix
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	defer f.Close()
	in := lines{list: l, lead: true}
	r := &io.LimitedReader{R: f, N: maxCodesLen + maxLine} // room for the list's own value
	err = eachLine(r, func(n int, line string) error {
		if _, err := in.next(line); err != nil {
			return fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		return nil
	})
	l.values.texts = nil
	if err == nil && r.N <= 0 {
		err = fmt.Errorf("lists: %s is longer than %d bytes", path, maxCodesLen)
	}
	return err
}

// writeCodes replaces the codes of the list at path, or removes their file if there are none.
func (l *List) writeCodes(path string) error {
	path += CodesSuffix
	t := &l.values
	if t.all == (Value{}) && len(t.own) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("lists: %w", err)
		}
		return nil
	}
	return writeFile(path, func(w io.Writer) error {
		if t.all != (Value{}) {
			if _, err := fmt.Fprintln(w, t.all); err != nil {
				return err
			}
		}
		for _, element := range slices.Sorted(maps.Keys(t.own)) {
			if _, err := fmt.Fprintln(w, element, t.own[element]); err != nil {
				return err
			}
		}
		return nil
	})
}

// joinCodes adds the values of o. Where both lists have an entry, l's counts.
func (l *List) joinCodes(o *List) error {
	if l.values.all != o.values.all {
		return fmt.Errorf("lists: the entries of one list have the value %q, of the other %q; combine the lists in a "+
			"[[dnsbl.zone]] instead", l.values.all, o.values.all)
	}
	for element, v := range o.values.own {
		if l.containsText([]byte(element)) {
			continue
		}
		if err := l.values.set(element, v); err != nil {
			return err
		}
	}
	return nil
}
