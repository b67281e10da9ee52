package lists

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Rbldnsd names the data sets of rbldnsd that [Conversion] reads.
var Rbldnsd = []string{"ip4set", "ip4trie", "ip4tset", "ip6trie", "ip6tset", "dnset"}

// A Conversion turns files of rbldnsd's data sets into text files of lists.
type Conversion struct {
	Kind string // one of [Rbldnsd]

	// Results of [Conversion.Convert].
	Excluded []string // entries that begin with "!", for the allow list
	Settings int      // lines such as $SOA and $TTL, which were left out
	Names    int      // names of a dnset that stand for themselves alone
	Wild     int      // names of a dnset that stand for their subdomains

	words [10]string // texts of $0 to $9
}

// Convert writes the entries of a file as lines of a list. It reads the file twice. An entry inside a
// larger excluded one is an error: the allow list of a list holds for all below its entries.
func (c *Conversion) Convert(in io.ReadSeeker, out io.Writer) error {
	if !slices.Contains(Rbldnsd, c.Kind) {
		return fmt.Errorf("lists: data set %.20q is none of %s", c.Kind, strings.Join(Rbldnsd, ", "))
	}
	excluded := make(map[string]struct{})
	err := c.each(in, func(entries []string, not bool, _ string) error {
		for _, e := range entries {
			if not {
				excluded[e] = struct{}{}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for e := range excluded {
		c.Excluded = append(c.Excluded, e)
	}
	slices.Sort(c.Excluded)
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	c.Settings, c.Names, c.Wild = 0, 0, 0
	w := bufio.NewWriter(out)
	err = c.each(in, func(entries []string, not bool, value string) error {
		if not {
			return nil
		}
		if entries == nil { // a value for the entries that follow
			fmt.Fprintln(w, value)
		}
		for _, e := range entries {
			if above := c.above(e, excluded); above != "" {
				return fmt.Errorf("%s is listed inside %s, which is excluded: put it into a list of its own", e, above)
			}
			fmt.Fprintln(w, strings.TrimSpace(e+" "+value))
		}
		return nil
	})
	return errors.Join(err, w.Flush())
}

// above returns the excluded entry that strictly contains e, or "".
func (c *Conversion) above(e string, excluded map[string]struct{}) string {
	if len(excluded) == 0 {
		return ""
	}
	if p, err := netip.ParsePrefix(e); err == nil {
		for bits := p.Bits() - 1; bits >= 0; bits-- {
			wider, _ := p.Addr().Prefix(bits)
			if _, ok := excluded[wider.String()]; ok {
				return wider.String()
			}
		}
		return ""
	}
	for {
		_, rest, ok := strings.Cut(e, ".")
		if !ok {
			return ""
		}
		if _, ok := excluded[rest]; ok {
			return rest
		}
		e = rest
	}
}

// each calls f for every line with entries, which are listed or not, or with a value alone.
func (c *Conversion) each(r io.Reader, f func(entries []string, not bool, value string) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		var entries []string
		var value string
		var err error
		token, not := strings.CutPrefix(line, "!")
		switch {
		case line[0] == '$':
			if err = c.setting(line); err == nil {
				continue
			}
		case line[0] == ':' && (len(line) < 2 || line[1] != ':' || !strings.HasPrefix(c.Kind, "ip6")):
			// A list cannot have a text alone for the entries that follow: "::" begins an address.
			if value, err = c.value(line); strings.HasPrefix(value, "::") {
				value = ":127.0.0.2:" + value[2:]
			}
		default:
			ends := " \t:"
			if strings.HasPrefix(c.Kind, "ip6") {
				ends = " \t"
			}
			rest := ""
			if at := strings.IndexAny(token, ends); at >= 0 {
				token, rest = token[:at], strings.TrimSpace(token[at:])
			}
			if entries, err = c.entries(token, not); err == nil && !not {
				value, err = c.value(rest)
			}
		}
		if err == nil {
			err = f(entries, not, value)
		}
		if err != nil {
			return fmt.Errorf("lists: line %d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return nil
}

// setting reads a line that begins with "$".
func (c *Conversion) setting(line string) error {
	name, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	switch {
	case len(name) == 2 && name[1] >= '0' && name[1] <= '9':
		c.words[name[1]-'0'] = strings.TrimSpace(rest)
		return nil
	case strings.EqualFold(name, "$DATASET"):
		return errors.New("$DATASET: put each data set into a file of its own")
	}
	c.Settings++
	return nil
}

// value returns what follows an entry in the form of [ParseValue], "" for nothing.
func (c *Conversion) value(text string) (string, error) {
	if text == "" || text[0] == '#' || text[0] == ';' {
		return "", nil
	}
	code := ""
	if text[0] == ':' {
		code, text, _ = strings.Cut(text[1:], ":")
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '$' && i+1 < len(text) {
			next := text[i+1]
			if next >= '0' && next <= '9' {
				b.WriteString(c.words[next-'0'])
				i++
				continue
			}
			if next == '$' {
				b.WriteByte('$') // the second follows
				i++
			}
		}
		b.WriteByte(text[i])
	}
	v := ":" + strings.TrimSpace(code) + ":" + strings.TrimSpace(b.String())
	parsed, err := ParseValue(v)
	return parsed.String(), err
}

// entries returns the entries that a word stands for.
func (c *Conversion) entries(word string, not bool) ([]string, error) {
	switch {
	case c.Kind == "dnset":
		return c.name(word, not)
	case strings.HasPrefix(c.Kind, "ip6"):
		p, err := prefix6(word)
		return []string{p.String()}, err
	}
	all, err := range4(word)
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.String()
	}
	return out, err
}

// name reads an entry of a dnset.
func (c *Conversion) name(word string, not bool) ([]string, error) {
	bare := strings.TrimPrefix(strings.TrimPrefix(word, "*"), ".")
	name, err := normalDomain(bare)
	if err != nil {
		return nil, err
	}
	if !not {
		if bare == word {
			c.Names++
		} else {
			c.Wild++
		}
		if c.Names > 0 && c.Wild > 0 {
			return nil, fmt.Errorf("%q: names for themselves alone and names with their subdomains need two lists, which one "+
				"zone may combine", word)
		}
	}
	return []string{name}, nil
}

// octets reads one to four octets into an address, whose other octets are rest.
func octets(text string, rest byte) (a [4]byte, n int, err error) {
	a = [4]byte{rest, rest, rest, rest}
	for word := range strings.SplitSeq(text, ".") {
		v, err := strconv.ParseUint(word, 10, 8)
		if err != nil || n == 4 {
			return a, 0, fmt.Errorf("%.40q is no address of one to four octets", text)
		}
		a[n], n = byte(v), n+1
	}
	return a, n, nil
}

// range4 reads "10.1", "10.1.0.0/16", "10.1-10.3" and "10.1-3".
func range4(word string) ([]netip.Prefix, error) {
	if host, length, ok := strings.Cut(word, "/"); ok {
		a, _, err := octets(host, 0)
		bits, err2 := strconv.ParseUint(length, 10, 6)
		if err != nil || err2 != nil || bits > 32 {
			return nil, fmt.Errorf("%.40q is no network", word)
		}
		p := netip.PrefixFrom(netip.AddrFrom4(a), int(bits))
		if p.Masked() != p {
			return nil, fmt.Errorf("%.40q has bits beyond its length", word)
		}
		return []netip.Prefix{p}, nil
	}
	first, last, isRange := strings.Cut(word, "-")
	low, n, err := octets(first, 0)
	if err != nil {
		return nil, err
	}
	high, _, _ := octets(first, 255)
	if isRange {
		k := 0
		if high, k, err = octets(last, 255); err != nil {
			return nil, err
		}
		if k == 1 { // the last octet of the first address
			end := high[0]
			high, _, _ = octets(first, 255)
			high[n-1] = end
		}
	}
	from, to := netip.AddrFrom4(low), netip.AddrFrom4(high)
	if to.Less(from) {
		return nil, fmt.Errorf("%.40q ends before it begins", word)
	}
	return cover(from, to), nil
}

// cover returns the fewest networks that hold exactly the addresses from one to another.
func cover(from, to netip.Addr) (all []netip.Prefix) {
	for {
		p := netip.PrefixFrom(from, from.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(from, p.Bits()-1)
			if wider.Masked() != wider || to.Less(last(wider)) {
				break
			}
			p = wider
		}
		all = append(all, p)
		if from = last(p).Next(); !from.IsValid() || to.Less(from) {
			return all
		}
	}
}

// last returns the last address of an IPv4 network.
func last(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		a[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(a)
}

// prefix6 reads an IPv6 address or network, whose last words may be missing.
func prefix6(word string) (netip.Prefix, error) {
	host, length, hasLength := strings.Cut(word, "/")
	bits := 128
	if n := strings.Count(host, ":") + 1; n < 8 && !strings.Contains(host, "::") {
		host, bits = host+"::", 16*n
	}
	a, err := netip.ParseAddr(host)
	if hasLength && err == nil {
		bits, err = strconv.Atoi(length)
	}
	p := netip.PrefixFrom(a, bits)
	if err != nil || !a.Is6() || a.Zone() != "" || !p.IsValid() || p.Masked() != p {
		return p, fmt.Errorf("%.60q is no IPv6 network", word)
	}
	return p, nil
}

// The lines around the entries of an allow list that [Exclude] writes.
const (
	excludedBegin = "# BEGIN excluded in the source of the list"
	excludedEnd   = "# END excluded"
)

// Exclude replaces the entries that the source of the list at path excludes, in its allow list. The other
// lines of the allow list stay.
func Exclude(path string, entries []string) error {
	return editAllowed(path, func(text string) string {
		if before, rest, ok := strings.Cut(text, excludedBegin+"\n"); ok {
			_, after, _ := strings.Cut(rest, excludedEnd+"\n")
			text = before + after
		}
		if len(entries) > 0 {
			text = endLine(text) + excludedBegin + "\n" + strings.Join(entries, "\n") + "\n" + excludedEnd + "\n"
		}
		return text
	})
}
