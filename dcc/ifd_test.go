package dcc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

const ifdMessage = "Received: from mail.example.org (mail.example.org [192.0.2.7])\n" +
	"\tby mx.example.net; Mon, 1 Jan 2024 00:00:00 +0000\n" +
	"From: Alice <alice@example.org>\nMessage-ID: <1@example.org>\nSubject: ferry\n\n" +
	"The ferry to the island leaves at nine on every day of the week\nbut Sunday, and returns at six; tickets " +
	"are sold on board.\n"

// serveIfd runs s on a unix socket until the test ends and returns a function
// that asks it.
func serveIfd(t testing.TB, s *Ifd) func(request string) string {
	t.Helper()
	if s.Host == "" {
		s.Host = "vm"
	}
	socket := prototest.ServeStream(t, "unix:"+filepath.Join(t.TempDir(), "dccifd"), s)
	return func(request string) string {
		t.Helper()
		reply, err := prototest.Ask(t, socket, []byte(request))
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
}

func ifdRequestText(options string, recipients ...string) string {
	envelope := options + "\n192.0.2.7\nmail.example.org\nalice@example.org\n"
	for _, r := range recipients {
		envelope += r + "\n"
	}
	return envelope + "\n" + ifdMessage
}

func TestIfdDialogue(t *testing.T) {
	ask := serveIfd(t, &Ifd{Clearinghouse: new(prototest.House), Brand: "TestBrand",
		Thresholds: map[digests.Type]uint32{digests.TypeBody: 4}})
	const head = "X-DCC-TestBrand-Metrics: vm 101; "
	for _, step := range []struct{ name, request, want string }{
		{"first", ifdRequestText("header", "bob@example.net"), "A\nA\n" + head + "Body=1 Fuz1=1\n\n"},
		{"two recipients", ifdRequestText("header", "bob@example.net", "carol@example.net"),
			"A\nAA\n" + head + "Body=3 Fuz1=3\n\n"},
		{"query", ifdRequestText("header query", "bob@example.net"), "A\nA\n" + head + "Body=3 Fuz1=3\n\n"},
		{"query, spam ignored", ifdRequestText("header spam query", "bob@example.net"),
			"A\nA\n" + head + "Body=3 Fuz1=3\n\n"},
		{"no recipients", ifdRequestText("header"), "A\n\n\n"},
		{"no options", ifdRequestText("", "bob@example.net"), "R\nR\n"},
		{"at the threshold", ifdRequestText("HEADER  query", "bob@example.net"), "R\nR\n" + head + "bulk Body=4 Fuz1=4\n\n"},
		{"no-reject", ifdRequestText("header query no-reject", "bob@example.net"),
			"A\nR\n" + head + "bulk Body=4 Fuz1=4\n\n"},
		{"spam", ifdRequestText("header spam grey-off", "bob@example.net"), "R\nR\n" + head + "bulk Body=many Fuz1=many\n\n"},
		{"after spam", ifdRequestText("header query", "bob@example.net"), "R\nR\n" + head + "bulk Body=many Fuz1=many\n\n"},
		{"unknown option", ifdRequestText("header colour", "bob@example.net"), ""},
		{"bad address", "header\nnowhere\nhelo\nsender\n\nmessage", ""},
		{"cut", "header\n192.0.2.7", ""},
		{"crlf", strings.ReplaceAll(ifdRequestText("header query", "bob@example.net"), "\n", "\r\n"), "R\nR\n" + head +
			"bulk Body=many Fuz1=many\n\n"},
	} {
		if got := ask(step.request); got != step.want {
			t.Errorf("%s: reply\n%q, want\n%q", step.name, got, step.want)
		}
	}
}

// TestIfdChecksums checks the table byte by byte, as SpamAssassin reads it.
func TestIfdChecksums(t *testing.T) {
	ask := serveIfd(t, &Ifd{Clearinghouse: new(prototest.House), Brand: "TestA",
		Thresholds: map[digests.Type]uint32{digests.TypeBody: 50, digests.TypeFuz1: 50}})
	request := "cksums grey-off \n192.0.2.7\rmail.example.org\nmail.example.org\n\nunknown\n\n" + ifdMessage
	got := ask(request)
	var want strings.Builder
	want.WriteString("A\nA\nX-DCC-TestA-Metrics: vm 101; Body=1 Fuz1=1\n")
	want.WriteString("                            reported: 1               checksum  server thold\n")
	want.WriteString("                       IP: bb1027c0 791faac6 194840a7 72f73220\n")
	sums, err := digests.Sums(t.Context(), []byte(ifdMessage), digests.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sums {
		tail := ""
		if s.Type >= digests.TypeBody {
			tail = "       0    50"
		}
		fmt.Fprintf(&want, "%25s: %x %x %x %x%s\n", s.Type, s.Sum[:4], s.Sum[4:8], s.Sum[8:12], s.Sum[12:], tail)
	}
	want.WriteString("\n")
	if got != want.String() {
		t.Errorf("reply\n%s, want\n%s", got, want.String())
	}
	if got := ask(request); !strings.Contains(got, "Body=2") ||
		!regexp.MustCompile(`(?m) Body: [0-9a-f ]{35}       1    50$`).MatchString(got) {
		t.Errorf("second reply\n%s", got)
	}
}

// TestIfdLocalSum: mails without a Message-ID are not counted together where that
// type is kept.
func TestIfdLocalSum(t *testing.T) {
	ask := serveIfd(t, &Ifd{
		Clearinghouse: new(prototest.House), Brand: "b", Keep: []digests.Type{digests.TypeMessageID, digests.TypeBody},
		Thresholds: map[digests.Type]uint32{digests.TypeMessageID: 2},
	})
	const request = "header\n192.0.2.7\nhelo\n\nbob\n\nFrom: a@example.org\n\n"
	first, second := "The ferry to the island leaves at nine in the morning.\n", "Tickets are sold on board by "+
		"the captain and the cook.\n"
	if got, want := ask(strings.Replace(request, "header", "spam", 1)+first), "R\nR\n"; got != want {
		t.Errorf("reply %q, want %q", got, want)
	}
	if got, want := ask(request+second), "A\nA\nX-DCC-b-Metrics: vm 101; Body=1 Fuz1=0\n\n"; got != want {
		t.Errorf("reply %q, want %q", got, want)
	}
}

func TestIfdBody(t *testing.T) {
	ask := serveIfd(t, &Ifd{Clearinghouse: new(prototest.House), Brand: "TestBrand"})
	message := "X-DCC-TestBrand-Metrics: old 1;\n\tBody=9\nX-DCC-Other-Metrics: kept\n" + ifdMessage
	got := ask("body\n192.0.2.7\n\n\nbob\n\n" + message)
	header, body, _ := strings.Cut(ifdMessage, "\n\n")
	want := "A\nA\nX-DCC-Other-Metrics: kept\n" + header + "\nX-DCC-TestBrand-Metrics: vm 101; Body=1 Fuz1=1\n\n" + body
	if got != want {
		t.Errorf("reply\n%q, want\n%q", got, want)
	}
}

func TestIfdFindsTheClient(t *testing.T) {
	relays, err := ReadWhitelist(nil, "whiteclnt", strings.NewReader("mx ip 198.51.100.0/24\nok ip 192.0.2.7\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	message := "Received: from relay ([198.51.100.3]) by mx; x\nReceived: from nobody by relay\n" + ifdMessage
	for name, tt := range map[string]struct{ options, client, want string }{
		"given":   {"header", "203.0.113.1", "203.0.113.1"},
		"found":   {"header", "", "198.51.100.3"},
		"zero":    {"header", "0.0.0.0\r0.0.0.0", "198.51.100.3"},
		"skipped": {"header rcvd-next", "", "192.0.2.7"},
		"mapped":  {"header", "::ffff:192.0.2.9", "192.0.2.9"},
	} {
		q, err := readIfdRequest(bufio.NewReader(strings.NewReader(tt.options + "\n" + tt.client + "\nhelo\n\nbob\n\n")))
		if err != nil {
			t.Fatal(err)
		}
		s := &Ifd{Clearinghouse: new(prototest.House)}
		m := &mailing{request: q, message: []byte(message)}
		s.findClient(m)
		if got := m.opt.Client.String(); got != tt.want {
			t.Errorf("%s: client %s, want %s", name, got, tt.want)
		}
	}
	// Behind two of our relays is a host that the list calls ok.
	s := &Ifd{Clearinghouse: new(prototest.House), Brand: "b", White: func() *Whitelist { return relays }}
	if got := serveIfd(t, s)("header\n198.51.100.9\nhelo\n\nbob\n\n" +
		message); got != "A\nA\nX-DCC--Metrics: vm; whitelist\n\n" {
		t.Errorf("reply %q", got)
	}
	if n := s.Stats.Reported.Load(); n != 0 {
		t.Errorf("a whitelisted message is reported %d times", n)
	}
}

func TestIfdWhitelists(t *testing.T) {
	lists := map[string]string{
		"":      "many env_From spam@example.org\nok2 from <alice@example.org>\n",
		"bob":   "ok env_From spam@example.org\n",
		"carol": "ok2 substitute Subject ferry\n",
		"dave":  "many message-id 1@example.org\n",
		"erin":  "option dcc-off\n",
		"frank": "option threshold body,1\n",
		"trap":  "option spam-trap-reject\n",
		"greta": "ok env_To greta@example.net\n",
	}
	parsed := make(map[string]*Whitelist)
	for name, text := range lists {
		w, err := ReadWhitelist(nil, name, strings.NewReader(text), false)
		if err != nil {
			t.Fatal(err)
		}
		parsed[name] = w
	}
	for _, tt := range []struct{ name, sender, recipients, want string }{
		{"black for all", "spam@example.org", "joe", "R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"a user's own list goes first", "spam@example.org", "x\rbob", "A\nA\nX-DCC--Metrics: vm; whitelist\n\n"},
		{"one of two", "spam@example.org", "x\rbob\ny\rjoe", "A\nAR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"half white", "a@b", "x", "A\nA\nX-DCC-b-Metrics: vm 101; Body=1 Fuz1=1\n\n"},
		{"half of another list", "a@b", "x\rcarol", "A\nA\nX-DCC-b-Metrics: vm 101; Body=1 Fuz1=1\n\n"},
		{"black for one", "a@b", "x\rdave", "R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"switched off", "a@b", "x\rerin", "A\nA\nX-DCC-b-Metrics: vm 101; Body=0 Fuz1=0\n\n"},
		{"own threshold", "a@b", "x\rfrank\ny", "A\nRA\nX-DCC-b-Metrics: vm 101; bulk Body=2 Fuz1=2\n\n"},
		{"black for one of two", "a@b", "x\rdave\ny", "A\nRA\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"and at the threshold of the other", "a@b", "x\rdave\ny\rfrank",
			"R\nRR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"trap for one of two", "a@b", "x\rtrap\ny", "A\nRA\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"trap", "a@b", "x\rtrap", "R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"recipient", "a@b", "greta@example.net\rgreta", "A\nA\nX-DCC--Metrics: vm; whitelist\n\n"},
	} {
		s := &Ifd{
			Clearinghouse: new(prototest.House), Brand: "b",
			White: func() *Whitelist { return parsed[""] }, UserWhite: func(user string) *Whitelist { return parsed[user] },
		}
		if got := serveIfd(t, s)("header\n192.0.2.9\nhelo\n" + tt.sender + "\n" + tt.recipients +
			"\n\n" + ifdMessage); got != tt.want {
			t.Errorf("%s: reply\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
}

// TestIfdTrapForAll: the common list may make every message spam, and a user's list may override
// it.
func TestIfdTrapForAll(t *testing.T) {
	parsed := make(map[string]*Whitelist)
	for name, text := range map[string]string{"": "option spam-trap-discard\n", "bob": "option not-spam-trap\n",
		"carol": "option dcc-on\n"} {
		w, err := ReadWhitelist(nil, name, strings.NewReader(text), false)
		if err != nil {
			t.Fatal(err)
		}
		parsed[name] = w
	}
	for _, tt := range []struct{ options, recipients, want string }{
		{"header", "x", "R\nR\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"header", "x\rcarol\ny\rbob", "A\nRA\nX-DCC-b-Metrics: vm 101; bulk Body=many Fuz1=many\n\n"},
		{"header", "x\rbob", "A\nA\nX-DCC-b-Metrics: vm 101; Body=1 Fuz1=1\n\n"},
		{"header query", "x", "A\nA\nX-DCC-b-Metrics: vm 101; Body=0 Fuz1=0\n\n"},
	} {
		s := &Ifd{
			Clearinghouse: new(prototest.House), Brand: "b",
			White: func() *Whitelist { return parsed[""] }, UserWhite: func(user string) *Whitelist { return parsed[user] },
		}
		if got := serveIfd(t, s)(tt.options + "\n192.0.2.9\nhelo\na@b\n" + tt.recipients +
			"\n\n" + ifdMessage); got != tt.want {
			t.Errorf("%s to %q: reply\n%q, want\n%q", tt.options, tt.recipients, got, tt.want)
		}
	}
}

func TestIfdGreylist(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := &Ifd{Clearinghouse: new(prototest.House), Brand: "b", Grey: new(Greylist), Now: func() time.Time { return now }}
	ask := serveIfd(t, s)
	letters := func(options string, recipients ...string) string {
		t.Helper()
		lines := strings.SplitN(ask(ifdRequestText(options, recipients...)), "\n", 3)
		return lines[0] + " " + lines[1]
	}
	for _, step := range []struct {
		after      time.Duration
		options    string
		recipients []string
		want       string
	}{
		{0, "header grey-query", []string{"bob"}, "G G"},
		{0, "header", []string{"bob"}, "G G"},
		{DefaultEmbargo - time.Second, "header", []string{"bob", "carol"}, "G GG"},
		{time.Second, "header", []string{"bob", "carol"}, "A AG"},
		{0, "header grey-off", []string{"dave"}, "A A"},
		{DefaultGreyWhite - time.Second, "header", []string{"bob"}, "A A"},
		{DefaultGreyWhite, "header", []string{"bob"}, "G G"},
		{DefaultGreyWindow, "header", []string{"bob"}, "G G"},
		{0, "header spam", []string{"bob"}, "R R"},
	} {
		now = now.Add(step.after)
		if got := letters(step.options, step.recipients...); got != step.want {
			t.Errorf("at %v %q to %v: %s, want %s", now.UTC(), step.options, step.recipients, got, step.want)
		}
	}
}

// TestGreylistClock: a triple that came while the clock was ahead still passes once the clock is
// right, after its embargo.
func TestGreylistClock(t *testing.T) {
	const years = 5 * 365 * 24 * time.Hour
	g := &Greylist{White: 2 * years}
	triple, now := GreyTriple([16]byte{1}, [16]byte{}, [16]byte{}), time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		at    time.Duration
		query bool
		want  GreyAnswer
	}{
		{years, false, GreyEmbargo},
		{0, true, GreyEmbargo},
		{0, false, GreyEmbargo},
		{DefaultEmbargo - time.Second, false, GreyEmbargo},
		{DefaultEmbargo, true, GreyEnded},
		{DefaultEmbargo, false, GreyEnded},
		{years, false, GreyPass},
		{DefaultEmbargo, false, GreyPass},
	} {
		if got := g.Ask(triple, now.Add(step.at), step.query); got != step.want {
			t.Errorf("%v after the start, query %v: %v, want %v", step.at, step.query, got, step.want)
		}
	}
}

// TestIfdSubmit: mail of our own users is not delayed by the greylist.
func TestIfdSubmit(t *testing.T) {
	list, err := ReadWhitelist(nil, "whiteclnt", strings.NewReader("submit ip 192.0.2.0/24\nmx ip 198.51.100.3\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	s := &Ifd{Clearinghouse: new(prototest.House), Brand: "b", Grey: new(Greylist), White: func() *Whitelist {
		return list
	}}
	ask := serveIfd(t, s)
	if got, want := ask(ifdRequestText("header", "bob")), "A\nA\nX-DCC-b-Metrics: vm 101; Body=1 Fuz1=1\n\n"; got != want {
		t.Errorf("own user: reply %q, want %q", got, want)
	}
	// The same behind one of our relays.
	if got := ask("\n198.51.100.3\nrelay\n\nbob\n\n" + ifdMessage); got != "A\nA\n" {
		t.Errorf("own user behind a relay: reply %q", got)
	}
	if got := ask("\n203.0.113.1\nhelo\n\nbob\n\n" + ifdMessage); got != "G\nG\n" {
		t.Errorf("somebody else: reply %q", got)
	}
}

func TestGreylistBoundedAndSaved(t *testing.T) {
	g := &Greylist{Entries: 100}
	now := time.Unix(1_000_000, 0)
	triple := func(i int) [16]byte { return GreyTriple([16]byte{byte(i), byte(i >> 8)}, [16]byte{}, [16]byte{}) }
	g.Ask(triple(0), now, false)
	now = now.Add(DefaultEmbargo)
	if a := g.Ask(triple(0), now, false); a != GreyEnded {
		t.Fatalf("answer %v after the embargo", a)
	}
	for i := 1; i < 1000; i++ {
		g.Ask(triple(i), now, false)
		if len(g.triples) > 100 {
			t.Fatalf("%d triples, limit 100", len(g.triples))
		}
	}
	if a := g.Ask(triple(0), now, true); a != GreyPass {
		t.Errorf("answer %v: new triples push out one that passed", a)
	}
	var saved bytes.Buffer
	if err := g.Save(&saved); err != nil {
		t.Fatal(err)
	}
	again := &Greylist{Entries: 100}
	if err := again.Load(bytes.NewReader(saved.Bytes())); err != nil || len(again.triples) != len(g.triples) ||
		again.Ask(triple(0), now, true) != GreyPass {
		t.Errorf("loaded %d of %d triples: %v", len(again.triples), len(g.triples), err)
	}
	for i := range saved.Len() {
		damaged := bytes.Clone(saved.Bytes())
		damaged[i] ^= 0x10
		if err := again.Load(bytes.NewReader(damaged)); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Fatalf("damage at byte %d: %v", i, err)
		}
	}
}

func TestIfdFaults(t *testing.T) {
	s := &Ifd{Clearinghouse: &prototest.House{Err: errors.New("broken")}}
	ask := serveIfd(t, s)
	if got := ask(ifdRequestText("header", "bob", "carol")); got != "T\nTT\n" {
		t.Errorf("reply %q of a node that fails", got)
	}
	s = &Ifd{Clearinghouse: new(prototest.House), MaxMessage: 1000, Memory: door.NewMemory(1 << 20)}
	ask = serveIfd(t, s)
	if got := ask("header\n\n\n\nbob\n\n" + strings.Repeat("x", 2000)); got != "T\nT\n" {
		t.Errorf("reply %q to a message over the limit", got)
	}
	if got := ask("header\n\n\n\nbob\n\n" + strings.Repeat("x", 900)); !strings.HasPrefix(got, "A\n") {
		t.Errorf("reply %q to a message below the limit", got)
	}
	if _, n, _ := s.Memory.Usage(); n != 0 {
		t.Errorf("%d bytes are not given back", n)
	}
}

// readOnly answers checks and takes no reports.
type readOnly struct{ *prototest.House }

func (readOnly) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{}, bulkhead.ErrReadOnly
}

// TestIfdReadOnly: mail passes when the disk is full. Only a caller that reports spam explicitly
// gets an error.
func TestIfdReadOnly(t *testing.T) {
	ask := serveIfd(t, &Ifd{Clearinghouse: readOnly{new(prototest.House)}, Brand: "b"})
	if got := ask(ifdRequestText("header", "bob")); got != "A\nA\nX-DCC-b-Metrics: vm 101; Body=0 Fuz1=0\n\n" {
		t.Errorf("reply %q", got)
	}
	if got := ask(ifdRequestText("header spam", "bob")); got != "T\nT\n" {
		t.Errorf("reply %q to a report of spam", got)
	}
}

func TestFold(t *testing.T) {
	got := fold([]string{"X-DCC-bulkhead-Metrics: a-rather-long-host-name.example.org 101;", "bulk",
		"Body=many", "Fuz1=many", "Fuz2=many"})
	want := "X-DCC-bulkhead-Metrics: a-rather-long-host-name.example.org 101; bulk\n\tBody=many Fuz1=many Fuz2=many\n"
	if got != want {
		t.Errorf("fold = %q, want %q", got, want)
	}
}

func TestReadWhitelist(t *testing.T) {
	files := fstest.MapFS{
		"main": {Data: []byte("# comment\nok ip 192.0.2.0/28\n ip 198.51.100.1-198.51.100.9\n" +
			"\tfrom joe@example.org # his\ninclude more\noption threshold CMN,many\noption greylist-off\noption log-all\n")},
		"more":  {Data: []byte("ok2 substitute List-ID: <a.list>\nmany env_To trap@example.org\nok ip 2001:db8::/32\n")},
		"loop":  {Data: []byte("include loop\n")},
		"bad":   {Data: []byte("ok ip 192.0.2.0/28\nok colour blue\n")},
		"bad2":  {Data: []byte(" ip 192.0.2.1\n")},
		"bad3":  {Data: []byte("ok ip mail.example.org\n")},
		"bad4":  {Data: []byte("option party\n")},
		"bad5":  {Data: []byte("ok hex body 1 2 3\n")},
		"bad6":  {Data: []byte("maybe ip 192.0.2.1\n")},
		"bad7":  {Data: []byte("mx from joe@example.org\n")},
		"bad8":  {Data: []byte("include nowhere\n")},
		"bad9":  {Data: []byte("ok ip 192.0.2.9-192.0.2.1\n")},
		"bad10": {Data: []byte("option threshold body,0\n")},
		"long":  {Data: bytes.Repeat([]byte("x"), 2*maxWhiteLine)},
	}
	read := func(name string, server bool) (*Whitelist, error) {
		f, err := files.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return ReadWhitelist(files, name, f, server)
	}
	w, err := read("main", false)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{"192.0.2.15": true, "192.0.2.16": false, "198.51.100.9": true,
		"198.51.100.10": false, "2001:db8:ffff::1": true, "2001:db9::": false, "::ffff:192.0.2.1": true} {
		if v, ok := w.address(netip.MustParseAddr(addr)); ok != want || ok && v != White {
			t.Errorf("address %s: %x, %v, want %v", addr, v, ok, want)
		}
	}
	if v, ok := w.lookup(&Checksum{digests.TypeFrom, digests.ValueSum("", "JOE@example.org")}); !ok || v != White {
		t.Error("a line that goes on with the count before it is lost")
	}
	if v, ok := w.recipient("<trap@example.org>"); !ok || v != Many {
		t.Error("env_To is lost")
	}
	if w.Options.Thresholds[digests.TypeFuz1] != Many || w.Options.Grey == nil || *w.Options.Grey ||
		len(w.Ignored) != 1 || len(w.headers) != 1 {
		t.Errorf("options %+v, ignored %v, headers %v", w.Options, w.Ignored, w.headers)
	}
	for name := range files {
		if name == "main" || name == "more" {
			continue
		}
		if _, err := read(name, false); err == nil || !strings.Contains(err.Error(), "whitelist "+name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := read("more", true); err == nil {
		t.Error("a server's list takes a block of 2^96 addresses")
	}
	if _, ok := (*Whitelist)(nil).address(netip.MustParseAddr("::1")); ok {
		t.Error("the empty list holds an address")
	}
}

// FuzzReadIfdRequest: what parses has an envelope within its limits.
func FuzzReadIfdRequest(f *testing.F) {
	f.Add([]byte(ifdRequestText("header", "bob\rbob", "carol")))
	f.Add([]byte("cksums grey-off \r\n0.0.0.0\r0.0.0.0\r\n\r\n\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := readIfdRequest(bufio.NewReader(bytes.NewReader(data)))
		if (q == nil) == (err == nil) {
			t.Fatalf("readIfdRequest = %v, %v", q, err)
		}
		if q != nil && len(q.recipients) > maxIfdRecipients {
			t.Fatalf("%d recipients", len(q.recipients))
		}
	})
}

// FuzzIfd: any message gets a reply of the right shape.
func FuzzIfd(f *testing.F) {
	f.Add("cksums", []byte(ifdMessage))
	f.Add("body", []byte("X-DCC-bulkhead-Metrics: x\n y\nA: b"))
	f.Add("header spam rcvd-next", []byte("Received: from [ [IPv6:::1] ]"))
	s := &Ifd{Clearinghouse: new(prototest.House), Host: "vm"}
	if err := s.prepare(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, options string, message []byte) {
		q := &ifdRequest{recipients: []ifdRecipient{{address: "a"}, {address: "b", user: "c"}}}
		if q.options.parse(options) != nil {
			return
		}
		reply := s.answer(t.Context(), q, message, bulkhead.Reporter{})
		if !regexp.MustCompile(`(?s)\A[ARGT]\n[ARGT]{2}\n`).Match(reply) {
			t.Fatalf("reply %q", reply)
		}
	})
}

// FuzzReadWhitelist: a list or an error, and no crash.
func FuzzReadWhitelist(f *testing.F) {
	f.Add("ok ip 1.2.3.4/24\n from x\noption threshold body,many\ninclude x\n", true)
	f.Add("many hex fuz1 1 2 3 4\nok substitute a: b\nmx ip ::-::1\n", false)
	f.Add("ok \xff\u0130P 192.0.2.1\nok\tsubstitute \xff: x\n", false)
	f.Fuzz(func(t *testing.T, text string, server bool) {
		w, err := ReadWhitelist(nil, "fuzz", strings.NewReader(text), server)
		if (w == nil) == (err == nil) {
			t.Fatalf("ReadWhitelist = %v, %v", w, err)
		}
	})
}

// TestIfdReportsWhole: a report of spam through dccifd is visible to all front doors, because the
// whole message was seen.
func TestIfdReportsWhole(t *testing.T) {
	house := new(prototest.House)
	other, err := bulkhead.NewSignature(bulkhead.PyzorDigest, []byte("of the whole message"))
	if err != nil {
		t.Fatal(err)
	}
	ask := serveIfd(t, &Ifd{Clearinghouse: house, Signatures: func(_ context.Context, message []byte, _ string,
		_ netip.Addr) ([]bulkhead.Signature, bulkhead.Source, error) {
		if string(message) != ifdMessage {
			t.Errorf("signatures of %q", message)
		}
		return []bulkhead.Signature{other}, bulkhead.Source{}, nil
	}})
	judged := func() bulkhead.Judgement {
		v, err := house.Check(t.Context(), bulkhead.Query{Signatures: []bulkhead.Signature{other}})
		if err != nil {
			t.Fatal(err)
		}
		return v.Judged
	}
	ask(ifdRequestText("header", "bob"))
	if got := judged(); got != bulkhead.Unjudged {
		t.Errorf("a message that was only counted is judged %v", got)
	}
	ask(ifdRequestText("header spam", "bob"))
	if got := judged(); got != bulkhead.JudgedSpam {
		t.Errorf("a message that was reported is judged %v", got)
	}
}

// TestIfdTimeout: a message that takes too long gets a temporary failure, and is
// not counted.
func TestIfdTimeout(t *testing.T) {
	house := new(prototest.House)
	s := &Ifd{Clearinghouse: house, Timeout: time.Nanosecond}
	ask := serveIfd(t, s)
	for _, options := range []string{"header", "header spam", "header query"} {
		if got, want := ask(ifdRequestText(options, "bob@example.net", "eve@example.net")), "T\nTT\n"; got != want {
			t.Errorf("%s: reply %q, want %q", options, got, want)
		}
	}
	if n := s.Stats.Temporary.Load(); n != 3 || len(house.Reports()) != 0 {
		t.Errorf("%d temporary failures, %d reports; want 3 and none", n, len(house.Reports()))
	}
}

// TestIfdHeaderTimeout: the search of the header for each recipient's white list also ends with the
// context.
func TestIfdHeaderTimeout(t *testing.T) {
	w, err := ReadWhitelist(nil, "test", strings.NewReader("ok substitute x-a: b\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Ifd).listVerdict(ctx, w, &mailing{message: []byte(ifdMessage)}); !errors.Is(err, context.Canceled) {
		t.Errorf("verdict of a white list after the end of the context: %v", err)
	}
}

// TestIfdClearedTimeout: a message that could not be looked up on the white
// list in time gets a temporary failure, and is not counted.
func TestIfdClearedTimeout(t *testing.T) {
	house := new(prototest.House)
	ask := serveIfd(t, &Ifd{Clearinghouse: house, Cleared: func(ctx context.Context, _ []byte, _ string,
		_ netip.Addr, _ bool) (bool, error) {
		return false, context.DeadlineExceeded
	}})
	if got, want := ask(ifdRequestText("header", "bob@example.net")), "T\nT\n"; got != want || len(house.Reports()) != 0 {
		t.Errorf("reply %q, %d reports; want %q and none", got, len(house.Reports()), want)
	}
}
