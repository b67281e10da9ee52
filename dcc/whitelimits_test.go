package dcc

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestWhiteLines: each line of a white list, with queries to a list of that line alone.
func TestWhiteLines(t *testing.T) {
	const hex = "00000001 2 000000ab FFFFFFFF"
	sum := [16]byte{3: 1, 7: 2, 11: 0xab, 12: 255, 13: 255, 14: 255, 15: 255}
	from := Checksum{digests.TypeFrom, digests.ValueSum("", "joe@example.org")}
	for _, tt := range []struct {
		line  string
		sum   Checksum
		want  uint32 // 0: not listed
		wrong string // in the error of an invalid line
	}{
		{line: "ok from joe@example.org", sum: from, want: White},
		{line: "OK FROM joe@example.org", sum: from, want: White},
		{line: "ok2\tfrom\tjoe@example.org # comment", sum: from, want: White2},
		{line: "#ok from joe@example.org", sum: from},
		{line: "many from joe@example.org", sum: from, want: Many},
		{line: "1 from joe@example.org", sum: from, want: 1},
		{line: "16777199 from joe@example.org", sum: from, want: Many - 1},
		{line: "ok hex body " + hex, sum: Checksum{digests.TypeBody, sum}, want: White},
		{line: "ok hex fuz2 " + hex, sum: Checksum{digests.TypeFuz2, sum}, want: White},
		{line: "ok hex IP " + hex, sum: Checksum{digests.TypeIP, sum}, want: White},
		{line: "0 from joe@example.org", wrong: `"0" is not a count`},
		{line: "16777200 from joe@example.org", wrong: `"16777200" is not a count`},
		{line: "-1 from joe@example.org", wrong: `"-1" is not a count`},
		{line: "ok from", wrong: "want a type and a value"},
		{line: "ok", wrong: "want a type and a value"},
		{line: "ok colour blue", wrong: `unknown type "colour"`},
		{line: "ok reptotal blue", wrong: `unknown type "reptotal"`},
		{line: "ok hex body 1 2 3", wrong: "hex wants a type and four words"},
		{line: "ok hex body 1 2 3 4 5", wrong: "hex wants a type and four words"},
		{line: "ok hex colour 1 2 3 4", wrong: `unknown type "colour"`},
		{line: "ok hex body 1 2 3 g", wrong: `"g" is not a word of up to 8 hexadecimal digits`},
		{line: "ok hex body 1 2 3 123456789", wrong: `"123456789" is not a word of up to 8 hexadecimal digits`},
		{line: "ok substitute x-a:", wrong: "substitute wants a header and a value"},
		{line: "ok ip 192.0.2.1/33", wrong: "is not a block of addresses"},
		{line: "ok ip 192.0.2.1-2001:db8::1", wrong: "is not a range of addresses"},
		{line: "ok ip 192.0.2.1-x", wrong: "is not a range of addresses"},
		{line: "ok ip x-192.0.2.1", wrong: "is not a range of addresses"},
		{line: "submit from joe@example.org", wrong: "mx, mxdcc and submit are for addresses in a client's file"},
		{line: "mxdcc env_To joe@example.org", wrong: "mx, mxdcc and submit are for addresses in a client's file"},
		{line: "include", wrong: "include wants one file"},
		{line: "include a b", wrong: "include wants one file"},
		{line: "include a", wrong: "include is not allowed here"},
		{line: "option", wrong: "option wants a name"},
		{line: "option threshold", wrong: `"" is not type,count`},
		{line: "option threshold body", wrong: `"body" is not type,count`},
		{line: "option threshold colour,1", wrong: `unknown type "colour"`},
		{line: "option threshold body,16777201", wrong: `"16777201" is not a count`},
		{line: "ok from " + strings.Repeat("x", maxWhiteLine), wrong: "token too long"},
	} {
		w, err := ReadWhitelist(nil, "list", strings.NewReader("\n"+tt.line), false)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) || !strings.HasPrefix(err.Error(), "dcc: whitelist list") {
				t.Errorf("%.60q: %v, want %q", tt.line, err, tt.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tt.line, err)
			continue
		}
		if v, ok := w.lookup(&tt.sum); v != tt.want || ok != (tt.want != 0) {
			t.Errorf("%q: %#x, %v, want %#x", tt.line, v, ok, tt.want)
		}
	}
	if _, err := ReadWhitelist(nil, "server", strings.NewReader("mx ip 192.0.2.1\n"), true); err == nil {
		t.Error("a server's list takes a relay")
	}
}

// TestWhiteAddresses: blocks and ranges include their ends and nothing beyond,
// in a client's list and in a server's.
func TestWhiteAddresses(t *testing.T) {
	for _, tt := range []struct{ text, in, out string }{
		{"192.0.2.1", "192.0.2.1", "192.0.2.0 192.0.2.2 ::"},
		{"::ffff:192.0.2.1", "192.0.2.1", "192.0.2.2"},
		{"192.0.2.5-192.0.2.7", "192.0.2.5 192.0.2.6 192.0.2.7", "192.0.2.4 192.0.2.8"},
		{"192.0.2.5 - 192.0.2.7", "192.0.2.5 192.0.2.7", "192.0.2.4 192.0.2.8"},
		{"192.0.2.5-192.0.2.5", "192.0.2.5", "192.0.2.4 192.0.2.6"},
		{"::ffff:192.0.2.5-192.0.2.7", "192.0.2.5 192.0.2.7", "192.0.2.4 192.0.2.8"},
		{"192.0.2.9/29", "192.0.2.8 192.0.2.15", "192.0.2.7 192.0.2.16"},
		{"192.0.2.9/32", "192.0.2.9", "192.0.2.8 192.0.2.10"},
		{"2001:db8::10/124", "2001:db8::10 2001:db8::1f", "2001:db8::f 2001:db8::20"},
		{"2001:db8::ff-2001:db8::101", "2001:db8::ff 2001:db8::100 2001:db8::101", "2001:db8::fe 2001:db8::102"},
		{"10.0.0.0/16", "10.0.0.0 10.0.255.255", "9.255.255.255 10.1.0.0"},
	} {
		for _, server := range []bool{false, true} {
			w, err := ReadWhitelist(nil, "list", strings.NewReader("ok ip "+tt.text+"\n"), server)
			if err != nil {
				t.Errorf("%q: %v", tt.text, err)
				continue
			}
			for _, in := range strings.Fields(tt.in) {
				if v, ok := w.address(netip.MustParseAddr(in)); !ok || v != White {
					t.Errorf("%q does not hold %s", tt.text, in)
				}
			}
			for _, out := range strings.Fields(tt.out) {
				if _, ok := w.address(netip.MustParseAddr(out)); ok {
					t.Errorf("%q holds %s", tt.text, out)
				}
			}
		}
	}
	_, err := ReadWhitelist(nil, "list", strings.NewReader("ok ip 10.0.0.0-10.1.0.0\n"), true)
	if err == nil || !strings.Contains(err.Error(), "more than 65536 addresses") {
		t.Errorf("a server's block of 65537 addresses: %v", err)
	}
	// The first entry that contains an address applies.
	w := whitelistOf(t, "ok2 ip 192.0.2.1\nok ip 192.0.2.0/24\n")
	if v, _ := w.address(netip.MustParseAddr("192.0.2.1")); v != White2 {
		t.Errorf("%#x, want the first entry's ok2", v)
	}
}

// TestWhiteDepth: files may include each other four deep.
func TestWhiteDepth(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 5 {
		files[fmt.Sprint("f", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "ok from %d@example.org\ninclude ./f%d\n", i, i+1)}
	}
	files["f5"] = &fstest.MapFile{Data: []byte("ok from end@example.org\n")}
	for start, ok := range map[string]bool{"f3": true, "f2": false} {
		w, err := ReadWhitelist(files, start, strings.NewReader("include "+start+"\n"), false)
		if (err == nil) != ok {
			t.Errorf("%s: %v", start, err)
		}
		if err != nil {
			continue
		}
		if _, found := w.lookup(&Checksum{digests.TypeFrom, digests.ValueSum("", "end@example.org")}); !found {
			t.Errorf("%s: the last file is not read", start)
		}
	}
}

// TestWhiteOptions: of options that contradict each other the last one counts.
func TestWhiteOptions(t *testing.T) {
	yes, no := true, false
	show := func(o WhiteOptions) string {
		text := fmt.Sprint(o.NoDiscard, o.TrapReject, o.Thresholds)
		for _, b := range []*bool{o.DCC, o.Grey, o.Trap} {
			if b == nil {
				text += " unset"
			} else {
				text += fmt.Sprint(" ", *b)
			}
		}
		return text
	}
	for text, want := range map[string]WhiteOptions{
		"":                              {},
		"option dcc-on":                 {DCC: &yes},
		"option dcc-on\noption DCC-OFF": {DCC: &no},
		"option greylist-on":            {Grey: &yes},
		"option greylist-off":           {Grey: &no},
		"option no-forced-discard":      {NoDiscard: true},
		"option no-forced-discard\noption forced-discard-ok": {},
		"option spam-trap-discard":                           {Trap: &yes},
		"option spam-trap-reject":                            {Trap: &yes, TrapReject: true},
		"option not-spam-trap":                               {Trap: &no},
		"option threshold body, 5":                           {Thresholds: map[digests.Type]uint32{digests.TypeBody: 5}},
		"option threshold body,never":                        {Thresholds: map[digests.Type]uint32{digests.TypeBody: 0}},
		"option threshold body,16777200":                     {Thresholds: map[digests.Type]uint32{digests.TypeBody: Many}},
		"option threshold body,1\noption threshold cmn,MANY": {Thresholds: map[digests.Type]uint32{
			digests.TypeBody: Many, digests.TypeFuz1: Many, digests.TypeFuz2: Many}},
	} {
		if got := show(whitelistOf(t, text).Options); got != show(want) {
			t.Errorf("%q: %s, want %s", text, got, show(want))
		}
	}
	if w := whitelistOf(t, "option log-all\noption dnsbl4-off\n"); fmt.Sprint(w.Ignored) != "[log-all dnsbl4-off]" {
		t.Errorf("ignored options %v", w.Ignored)
	}
}

// TestWhiteUserNames: a user's name is one element of a path, of at most 128 bytes.
func TestWhiteUserNames(t *testing.T) {
	longest := strings.Repeat("u", 128)
	folder := fstest.MapFS{}
	for _, dir := range []string{longest, longest + "u", "a.b", "...", "x"} {
		folder[dir+"/whiteclnt"] = &fstest.MapFile{Data: []byte("ok from joe@example.org\n")}
	}
	folder["whiteclnt"], folder["x/y/whiteclnt"] = folder["x/whiteclnt"], folder["x/whiteclnt"]
	w := &WhiteFiles{Folder: folder}
	for name, want := range map[string]bool{longest: true, longest + "u": false, "a.b": true, "...": true, ".": false,
		"..": false, "": false, "x/y": false, "x/": false, "x\x00": false, "\xff": false, "nobody": false} {
		if got := w.User(name) != nil; got != want {
			t.Errorf("%.20q of %d bytes has a list: %v, want %v", name, len(name), got, want)
		}
	}
}

// closedFS is a folder in which no file can be opened.
type closedFS struct{}

func (closedFS) Open(name string) (fs.File, error) { return nil, fs.ErrPermission }

// TestWhiteFileErrors: an unreadable file is logged and has no list.
func TestWhiteFileErrors(t *testing.T) {
	var log strings.Builder
	w := &WhiteFiles{Folder: closedFS{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if w.Get("whiteclnt") != nil || !strings.Contains(log.String(), "permission denied") {
		t.Errorf("a file that cannot be opened: log %q", log.String())
	}
	log.Reset()
	w = &WhiteFiles{Folder: fstest.MapFS{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	if w.Get("whiteclnt") != nil || log.Len() != 0 {
		t.Errorf("a file that is not there: log %q", log.String())
	}
}

// TestServerWhiteCounts: a count in a server's list is answered as it is.
func TestServerWhiteCounts(t *testing.T) {
	list, err := ReadWhitelist(nil, "whitelist", strings.NewReader("7 hex body 0 0 0 1\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House), Whitelist: func() *Whitelist { return list }}),
		AnonymousID, "")
	got, err := c.Query(t.Context(), []Checksum{{digests.TypeBody, [16]byte{15: 1}}, {digests.TypeFuz1, [16]byte{15: 1}}})
	wantTotals(t, "of the list", got, err, Total{7, 7}, Total{0, 0})
}

// TestBrands: letters and digits, at most 32.
func TestBrands(t *testing.T) {
	for brand, want := range map[string]bool{
		strings.Repeat("b", 32): true, strings.Repeat("b", 33): false, "azAZ09": true,
		"a`": false, "{": false, "@": false, "[": false, "/": false, ":": false, "a b": false,
	} {
		err := (&Server{Clearinghouse: new(prototest.House), Brand: brand}).prepare()
		if ifd := (&Ifd{Clearinghouse: new(prototest.House), Brand: brand}).prepare(); (err == nil) != want ||
			(ifd == nil) != want {
			t.Errorf("%q: %v, %v, want it taken: %v", brand, err, ifd, want)
		}
	}
	for id, want := range map[uint32]bool{0: true, 99: false, 100: true, 32767: true, 32768: false} {
		if err := (&Server{Clearinghouse: new(prototest.House), ServerID: id}).prepare(); (err == nil) != want {
			t.Errorf("server id %d: %v", id, err)
		}
	}
}

// failingWriter fails every write.
type failingWriter struct{}

var errFull = errors.New("no space left")

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

// TestGreylistBounds: embargoes end, and passed triples are forgotten, to the second.
func TestGreylistBounds(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	triple := GreyTriple([16]byte{1}, [16]byte{2}, [16]byte{3})
	for _, tt := range []struct {
		name  string
		after []time.Duration
		want  []GreyAnswer
	}{
		{"before the embargo ends", []time.Duration{0, 9 * time.Second}, []GreyAnswer{GreyEmbargo, GreyEmbargo}},
		{"when it ends", []time.Duration{0, 10 * time.Second, 0}, []GreyAnswer{GreyEmbargo, GreyEnded, GreyPass}},
		{"at the end of the window", []time.Duration{0, 99 * time.Second}, []GreyAnswer{GreyEmbargo, GreyEnded}},
		{"after the window", []time.Duration{0, 100 * time.Second, 10 * time.Second},
			[]GreyAnswer{GreyEmbargo, GreyEmbargo, GreyEnded}},
		{"while it is remembered", []time.Duration{0, 10 * time.Second, 999 * time.Second, 999 * time.Second},
			[]GreyAnswer{GreyEmbargo, GreyEnded, GreyPass, GreyPass}},
		{"forgotten", []time.Duration{0, 10 * time.Second, 1000 * time.Second},
			[]GreyAnswer{GreyEmbargo, GreyEnded, GreyEmbargo}},
	} {
		g := &Greylist{Embargo: 10 * time.Second, Window: 100 * time.Second, White: 1000 * time.Second}
		now := start
		for i, after := range tt.after {
			now = now.Add(after)
			if got := g.Ask(triple, now, false); got != tt.want[i] {
				t.Errorf("%s, message %d: %v, want %v", tt.name, i+1, got, tt.want[i])
			}
		}
	}
	if err := new(Greylist).Save(failingWriter{}); !errors.Is(err, errFull) {
		t.Errorf("saved where nothing can be written: %v", err)
	}
	// Expired entries make room first, then embargoes, then any entry.
	g := &Greylist{Embargo: 10 * time.Second, Window: 100 * time.Second, White: 1000 * time.Second, Entries: 2}
	ask := func(n byte, after time.Duration) GreyAnswer {
		return g.Ask(GreyTriple([16]byte{n}, [16]byte{}, [16]byte{}), start.Add(after), false)
	}
	ask(1, 0)
	ask(1, 10*time.Second)
	ask(2, 20*time.Second)
	ask(3, 30*time.Second) // in the place of 2
	ask(3, 40*time.Second)
	ask(4, 50*time.Second) // in the place of 1 or 3, which both passed
	if got := ask(4, 60*time.Second); got != GreyEnded || len(g.triples) != 2 {
		t.Errorf("%v with %d triples, want that the latest is remembered, and two", got, len(g.triples))
	}
}
