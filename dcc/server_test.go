package dcc

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

func unhex(t testing.TB, parts ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve runs s over loopback UDP until the test ends and returns its address.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	return prototest.ServePackets(t, "127.0.0.1:0", 1, s).String()
}

func dialRaw(t testing.TB, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func exchange(t *testing.T, c net.Conn, request []byte) []byte {
	t.Helper()
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("no answer to %x: %v", request, err)
	}
	return buf[:n]
}

// silent reports whether none of the requests is answered: an answer to the
// NOP that follows them must be the first to come.
func silent(t *testing.T, c net.Conn, requests ...[]byte) bool {
	t.Helper()
	for _, r := range requests {
		c.Write(r)
	}
	nop := rawPacket(MaxVersion, NOP, AnonymousID, [16]byte{15: 99}, nil)
	return Op(exchange(t, c, nop)[3]) == OK
}

// rawPacket makes an unsigned packet.
func rawPacket(version uint8, op Op, sender uint32, id [16]byte, body []byte) []byte {
	b := []byte{0, byte(minPacket + len(body)), version, byte(op)}
	b = binary.BigEndian.AppendUint32(b, sender)
	b = append(append(b, id[:]...), body...)
	return append(b, make([]byte, signatureSize)...)
}

// The exchange of docs/specs/dcc.md#worked-exchange, generated with a real server and client.
const (
	goldenID   = "6d017f00 930a0000"
	goldenSums = "0512ca88302d4e6df907fe9ea4be01cd8087 071295507cab8a3ae269f93ddb9fcb4542c5 " +
		"08125ba8fcc3874bc1ee5bb0114997a231a8 09129a7187297bba41ec3c8947241cc154f7"
	goldenNOP    = "0028 0c 01 00008001" + goldenID + "02000000 01000000 39fad88bc35ec616b9b4299076c8348e"
	goldenReport = "0074 0c 02 00008001" + goldenID + "03000000 01000000 00000001" + goldenSums +
		"765205552119376bdd721a0d35f8a186"
	goldenAnswer = "0048 0c 04 00000065" + goldenID +
		"03000000 01000000 00000000 01000000 00000001 00000000 00000001 00000000 00000001 00000000 " +
		"4e787f5dffad3c385a8d57538e9893cd"
	goldenClient  = 32769
	goldenPasword = "clntpass"
)

func goldenServer() *Server {
	return &Server{
		Clearinghouse: new(prototest.House), ServerID: 101, Brand: "TestBrand",
		Account: func(id uint32) (Account, bool) {
			switch id {
			case goldenClient:
				return Account{Passwords: []string{"other", goldenPasword}}, true
			case 101:
				return Account{Passwords: []string{"serverpass"}}, true
			}
			return Account{}, false
		},
	}
}

func TestGoldenExchange(t *testing.T) {
	c := dialRaw(t, serve(t, goldenServer()))
	// The document's OK shows the 400 ms of a lone real server; ours says 0, so
	// that its signature is computed here.
	wantOK := unhex(t, "006c 0c 06 00000065", goldenID, "02000000 01000000 0c 00 0000 546573744272616e64",
		strings.Repeat("00", 55))
	sum := sign(goldenPasword, wantOK)
	wantOK = append(wantOK, sum[:]...)
	if got := exchange(t, c, unhex(t, goldenNOP)); !bytes.Equal(got, wantOK) {
		t.Errorf("OK\n%x, want\n%x", got, wantOK)
	}
	if got, want := exchange(t, c, unhex(t, goldenReport)), unhex(t, goldenAnswer); !bytes.Equal(got, want) {
		t.Errorf("ANSWER\n%x, want\n%x", got, want)
	}
	// Sent again, with another transmission number, it is not counted again.
	again := unhex(t, goldenReport)
	again[20] = 2
	sum = sign(goldenPasword, again[:len(again)-signatureSize])
	copy(again[len(again)-signatureSize:], sum[:])
	want := unhex(t, goldenAnswer)
	want[20] = 2
	sum = sign(goldenPasword, want[:len(want)-signatureSize])
	copy(want[len(want)-signatureSize:], sum[:])
	if got := exchange(t, c, again); !bytes.Equal(got, want) {
		t.Errorf("repeated ANSWER\n%x, want\n%x", got, want)
	}
}

// TestSignOfTheOK compares our signature with the signature of the document's OK.
func TestSignOfTheOK(t *testing.T) {
	ok := unhex(t, "006c 0c 06 00000065", goldenID, "02000000 01000000 0c 00 0190 546573744272616e64",
		strings.Repeat("00", 55))
	if got, want := sign(goldenPasword, ok), unhex(t, "ed386c48014fe84cd97398b474e3f979"); !bytes.Equal(got[:], want) {
		t.Errorf("sign = %x, want %x", got, want)
	}
}

func goldenChecksums(t testing.TB) []Checksum {
	var p packet
	if err := p.parse(unhex(t, goldenReport)); err != nil {
		t.Fatal(err)
	}
	return append([]Checksum(nil), p.checksums[:p.n]...)
}

func dial(t testing.TB, address string, id uint32, password string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), address, &Options{ID: id, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func wantTotals(t *testing.T, what string, got []Total, err error, want ...Total) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%s: totals %x, want %x", what, got, want)
			return
		}
	}
}

// TestTotals is the dialogue after docs/specs/dcc.md#worked-exchange, with the consequences of
// docs/specs/dcc.md#answers.
func TestTotals(t *testing.T) {
	house := new(prototest.House)
	s := goldenServer()
	s.Clearinghouse = house
	address := serve(t, s)
	c := dial(t, address, goldenClient, goldenPasword)
	admin := dial(t, address, 101, "serverpass")
	sums, ctx := goldenChecksums(t), t.Context()
	notKept := Total{0, NoValue}
	report := func(what string, targets uint32, spam bool, want Total) {
		t.Helper()
		got, err := c.Report(ctx, targets, spam, sums)
		wantTotals(t, what, got, err, notKept, want, want, want)
	}
	report("first", 1, false, Total{1, 0})
	report("four targets", 4, false, Total{5, 1})
	got, err := c.Query(ctx, sums)
	wantTotals(t, "query", got, err, notKept, Total{5, 5}, Total{5, 5}, Total{5, 5})
	report("no targets", 0, false, Total{5, 5})
	report("spam", 1, true, Total{Many, 5})
	report("after spam", 3, false, Total{Many, Many})
	report("spam again", 0, true, Total{Many, Many})
	if err := c.Delete(ctx, sums[1]); err == nil {
		t.Error("a client deletes")
	}
	if err := admin.Delete(ctx, sums[1]); err != nil {
		t.Error(err)
	}
	got, err = c.Query(ctx, sums[1:2])
	wantTotals(t, "deleted", got, err, Total{0, 0})
	got, err = c.Report(ctx, 2, false, sums[1:2])
	wantTotals(t, "counts from 0 again", got, err, Total{2, 0})
	got, err = c.Query(ctx, nil)
	if err != nil || len(got) != 0 {
		t.Errorf("query of nothing: %v, %v", got, err)
	}
	// The claim of spam is a vote for the other front doors.
	v, err := house.Check(ctx, bulkhead.Query{Signatures: []bulkhead.Signature{signatureOf(&sums[2])}})
	if err != nil || v.Judged != bulkhead.JudgedSpam {
		t.Errorf("after a claim of spam the node says %v, %v", v.Judged, err)
	}
}

// TestDeleteAfterQuery: a DELETE is parsed as a DELETE, whatever packet was in its memory before.
func TestDeleteAfterQuery(t *testing.T) {
	ctx, sums := t.Context(), goldenChecksums(t)
	var p packet
	zero := rawPacket(MaxVersion, Report, 101, [16]byte{}, appendChecksums(nil, 0, sums))
	if err := p.parse(zero); err != nil || !p.none {
		t.Fatalf("%v, none %v", err, p.none)
	}
	del := rawPacket(MaxVersion, Delete, 101, [16]byte{}, append(appendChecksums(nil, 0, sums[:1]), 0, 0))
	if err := p.parse(del); err != nil || p.none || p.spam {
		t.Errorf("DELETE after a REPORT of no targets: %v, none %v, spam %v", err, p.none, p.spam)
	}
	s := goldenServer()
	address := serve(t, s)
	c, admin := dial(t, address, goldenClient, goldenPasword), dial(t, address, 101, "serverpass")
	for i := range 20 {
		if _, err := c.Report(ctx, 0, false, sums); err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(ctx, sums[1]); err != nil {
			t.Fatalf("DELETE %d: %v", i+1, err)
		}
	}
}

// TestJudgedElsewhere: a checksum that another front door listed is many.
func TestJudgedElsewhere(t *testing.T) {
	house := new(prototest.House)
	c := dial(t, serve(t, &Server{Clearinghouse: house}), AnonymousID, "")
	sums := goldenChecksums(t)[1:2]
	if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{signatureOf(&sums[0])},
		Vote: bulkhead.Spam}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Query(t.Context(), sums)
	wantTotals(t, "listed", got, err, Total{Many, Many})
}

func TestReputationTypes(t *testing.T) {
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House)}), AnonymousID, "")
	ip := digests.IPSum(netip.MustParseAddr("192.0.2.7"))
	body := goldenChecksums(t)[1]
	got, err := c.Report(t.Context(), 1, false, []Checksum{{digests.TypeIP, ip}, body, {digests.TypeRepTotal, ip},
		{digests.TypeRepBulk, ip}})
	wantTotals(t, "types 10 and 11", got, err, Total{0, NoValue}, Total{1, 0}, Total{0, NoValue}, Total{0, NoValue})
}

func TestServerWhitelist(t *testing.T) {
	sums := goldenChecksums(t)
	list, err := ReadWhitelist(nil, "whitelist", strings.NewReader(
		"ok\tip 192.0.2.0/24\nok2 hex body 95507cab 8a3ae269 f93ddb9f cb4542c5\nmany hex Message-ID ca88302d "+
			"4e6df907 fe9ea4be 01cd8087\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, &Server{Clearinghouse: new(prototest.House), Whitelist: func() *Whitelist { return list }}),
		AnonymousID, "")
	ip := Checksum{digests.TypeIP, digests.IPSum(netip.MustParseAddr("192.0.2.77"))}
	got, err := c.Report(t.Context(), 1, false, append([]Checksum{ip}, sums...))
	wantTotals(t, "white", got, err, Total{White, White}, Total{Many, Many}, Total{White2, White2}, Total{1, 0})
}

// TestSilence: packets that break a rule get no answer.
func TestSilence(t *testing.T) {
	c := dialRaw(t, serve(t, &Server{Clearinghouse: new(prototest.House)}))
	sum := func(typ, length byte) []byte { return append([]byte{typ, length}, make([]byte, 16)...) }
	body := func(targets uint32, sums ...[]byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, targets), bytes.Join(sums, nil)...)
	}
	var id [16]byte
	packet := func(op Op, b []byte) []byte { return rawPacket(MaxVersion, op, AnonymousID, id, b) }
	long := packet(Report, body(1, sum(7, 18)))
	for name, p := range map[string][]byte{
		"empty": {}, "short": make([]byte, 39), "length": append(bytes.Clone(long), 0),
		"version 3":       rawPacket(3, Query, AnonymousID, id, body(0, sum(7, 18))),
		"version 13":      rawPacket(13, Query, AnonymousID, id, body(0, sum(7, 18))),
		"NOP version 33":  rawPacket(33, NOP, AnonymousID, id, nil),
		"NOP body":        packet(NOP, make([]byte, 4)),
		"sender 2":        rawPacket(MaxVersion, NOP, 2, id, nil),
		"sender too high": rawPacket(MaxVersion, NOP, 1<<24, id, nil),
		"descending":      packet(Query, body(0, sum(8, 18), sum(7, 18))),
		"twice":           packet(Query, body(0, sum(7, 18), sum(7, 18))),
		"type 0":          packet(Query, body(0, sum(0, 18))),
		"type 12":         packet(Query, body(0, sum(12, 18))),
		"length 17":       packet(Query, body(0, sum(7, 17))),
		"cut":             packet(Query, body(0, sum(7, 18))[:20]),
		"2001 targets":    packet(Report, body(2001, sum(7, 18))),
		"claims ok":       packet(Report, body(White, sum(7, 18))),
		"unknown flag":    packet(Report, body(0x04000001, sum(7, 18))),
		"greylist":        packet(GreyReport, body(1, sum(7, 18))),
		"answer":          packet(Answer, nil),
		"op 0":            packet(0, nil),
		"op 77":           packet(77, nil),
		"short delete":    packet(Delete, make([]byte, 22)),
		"short admin":     packet(Admin, make([]byte, 11)),
	} {
		if !silent(t, c, p) {
			t.Errorf("%s: answered", name)
		}
	}
}

// TestVersions: old versions get their own forms of answers, and NOPs of later
// ones are answered with our version.
func TestVersions(t *testing.T) {
	c := dialRaw(t, serve(t, &Server{Clearinghouse: new(prototest.House)}))
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	body := append([]byte{0, 0, 0, 0, 7, 18}, make([]byte, 16)...)
	for version := uint8(MinVersion); version <= MaxVersion; version++ {
		got := exchange(t, c, rawPacket(version, Query, AnonymousID, id, body))
		size := minPacket + 8
		if version <= 5 {
			size = minPacket + 4
		}
		var want [16]byte
		if version <= 8 {
			want = sign5(id, got[:len(got)-signatureSize])
		}
		if len(got) != size || got[2] != version || !bytes.Equal(got[8:24], id[:]) ||
			!bytes.Equal(got[len(got)-signatureSize:], want[:]) {
			t.Errorf("version %d: answer %x", version, got)
		}
	}
	if got := exchange(t, c, rawPacket(32, NOP, AnonymousID, id, nil)); got[24] != MaxVersion {
		t.Errorf("NOP of version 32: %x", got)
	}
}

func sign5(id [16]byte, unsigned []byte) [16]byte {
	return md5.Sum(append(id[:], unsigned...))
}

func TestPasswords(t *testing.T) {
	s := goldenServer()
	var noted atomic.Int64
	s.Failures = door.NewFailures(slog.New(slog.DiscardHandler))
	s.Failures.OnLog = func(where string, _ netip.Addr, n int) {
		if noted.Add(int64(n)); where != "dcc" {
			t.Errorf("noted at %s", where)
		}
	}
	c := dialRaw(t, serve(t, s))
	exchange(t, c, unhex(t, goldenNOP))
	exchange(t, c, rawPacket(MaxVersion, NOP, AnonymousID, [16]byte{}, nil))
	if n := noted.Load(); n != 0 {
		t.Errorf("%d failures of a good password and an anonymous client", n)
	}
	nop := unhex(t, goldenNOP)
	nop[len(nop)-1] ^= 1
	got := exchange(t, c, nop)
	if !bytes.Equal(got[len(got)-signatureSize:], make([]byte, signatureSize)) {
		t.Errorf("a wrong password gets a signed answer: %x", got)
	}
	if s.Stats.BadPassword.Load() != 1 || noted.Load() != 1 {
		t.Errorf("a wrong password is counted %d times and noted %d times", s.Stats.BadPassword.Load(), noted.Load())
	}
	nobody := goldenServer()
	nobody.AnonymousFrom = []netip.Prefix{}
	c = dialRaw(t, serve(t, nobody))
	c.Write(rawPacket(MaxVersion, NOP, AnonymousID, [16]byte{}, nil))
	if got := exchange(t, c, unhex(t, goldenNOP)); Op(got[3]) != OK || !signedBy(got, goldenPasword) {
		t.Errorf("without anonymous service: %x", got)
	}
}

func TestAdmin(t *testing.T) {
	s := goldenServer()
	c := dial(t, serve(t, s), AnonymousID, "")
	if brand, err := c.Brand(t.Context()); err != nil || brand != "TestBrand" {
		t.Errorf("Brand = %q, %v", brand, err)
	}
	text, err := c.Stats(t.Context())
	if err != nil || !strings.Contains(text, "TestBrand server 101") || !strings.Contains(text, "1 NOPs") {
		t.Errorf("Stats = %q, %v", text, err)
	}
}

func TestFaults(t *testing.T) {
	c := dial(t, serve(t, &Server{Clearinghouse: &prototest.House{Err: bulkhead.ErrReadOnly}}), AnonymousID, "")
	sums := goldenChecksums(t)
	if _, err := c.Report(t.Context(), 1, false, sums); err == nil ||
		!strings.Contains(err.Error(), "temporarily read-only") {
		t.Errorf("report to a node that takes none: %v", err)
	}
	if _, err := c.Query(t.Context(), sums); err == nil {
		t.Error("query of a node that fails: no error")
	}
}

// failing is a Counter that takes no counts for a while.
type failing struct {
	bulkhead.Counter
	fails atomic.Bool
}

func (f *failing) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if f.fails.Load() {
		return bulkhead.ErrReadOnly
	}
	return f.Counter.Count(ctx, sigs, n)
}

// TestFailedReportIsRepeated: a report that could not be counted is counted when its client sends
// it again, and is not taken for one under way.
func TestFailedReportIsRepeated(t *testing.T) {
	s := goldenServer()
	house := &failing{Counter: bulkhead.CounterOf(s.Clearinghouse)}
	s.Clearinghouse = house
	c := dialRaw(t, serve(t, s))
	house.fails.Store(true)
	if got := exchange(t, c, unhex(t, goldenReport)); Op(got[3]) != Error {
		t.Fatalf("answer %x, want an error", got)
	}
	house.fails.Store(false)
	if got, want := exchange(t, c, unhex(t, goldenReport)), unhex(t, goldenAnswer); !bytes.Equal(got, want) {
		t.Errorf("sent again: %x, want\n%x", got, want)
	}
}

// TestConcurrentReports: every report counts once, in any combination of batches.
func TestConcurrentReports(t *testing.T) {
	house := new(prototest.House)
	address := serve(t, &Server{Clearinghouse: house})
	sums := goldenChecksums(t)
	const clients, each = 8, 50
	var wg sync.WaitGroup
	for i := range clients {
		c := dial(t, address, AnonymousID, "")
		wg.Go(func() {
			for n := range each {
				if _, err := c.Report(context.Background(), uint32(1+(i+n)%3), false, sums); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := uint32(0)
	for i := range clients {
		for n := range each {
			want += uint32(1 + (i+n)%3)
		}
	}
	got, err := dial(t, address, AnonymousID, "").Query(t.Context(), sums)
	wantTotals(t, "all", got, err, Total{0, NoValue}, Total{want, want})
}

func TestRecent(t *testing.T) {
	var r recent
	r.init()
	var p packet
	if err := p.parse(unhex(t, goldenReport)); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	k := r.key(&p, 5)
	q := p
	q.id[15]++ // t
	if r.key(&q, 5) != k || r.key(&p, 6) == k {
		t.Error("the key depends on t, or not on the port")
	}
	states := []recentState{r.enter(k, now), r.enter(k, now)}
	r.finish(k)
	states = append(states, r.enter(k, now.Add(recentTime-1)), r.enter(k, now.Add(recentTime+1)),
		r.enter(k, now.Add(3*recentTime+2)))
	for i, want := range []recentState{recentNew, recentBusy, recentDone, recentDone, recentNew} {
		if states[i] != want {
			t.Errorf("states %v", states)
			break
		}
	}
	r.forget(k)
	if r.enter(k, now.Add(3*recentTime+3)) != recentNew {
		t.Error("a request that failed is remembered")
	}
}

// TestRecentAgainstMap compares the shards with one map over random requests.
func TestRecentAgainstMap(t *testing.T) {
	var r recent
	r.init()
	random := rand.New(rand.NewPCG(5, 6))
	now := time.Unix(1000, 0)
	oracle := make(map[recentKey]recentState)
	for range 300_000 {
		k := recentKey(random.Uint64N(50_000)*0x9e3779b97f4a7c15&^3 | 4)
		switch random.IntN(3) {
		case 0:
			if got, want := r.enter(k, now), oracle[k]; got != want {
				t.Fatalf("enter(%x) = %v, want %v", k, got, want)
			} else if want == recentNew {
				oracle[k] = recentBusy
			}
		case 1:
			if oracle[k] != recentNew {
				r.finish(k)
				oracle[k] = recentDone
			}
		case 2:
			r.forget(k)
			delete(oracle, k)
		}
	}
}

// TestRecentBounded: memory is bounded for any number of requests, and the latest are remembered.
func TestRecentBounded(t *testing.T) {
	var r recent
	r.init()
	now := time.Unix(1000, 0)
	const n = 300_000
	for i := range uint64(n) {
		k := recentKey(i*0x9e3779b97f4a7c15>>6&^3 | 4) // all in one shard
		r.enter(k, now)
		if r.enter(k, now) != recentBusy {
			t.Fatalf("request %d is forgotten at once", i)
		}
	}
	if s := &r.shards[0]; len(s.new) > recentMost || len(s.old) > recentMost {
		t.Errorf("maps of %d and %d requests, limit %d", len(s.new), len(s.old), recentMost)
	}
}

// FuzzServer sends arbitrary datagrams to a server: no panic, and at most one answer of a bounded
// size.
func FuzzServer(f *testing.F) {
	f.Add(unhex(f, goldenNOP))
	f.Add(unhex(f, goldenReport))
	f.Add(rawPacket(MaxVersion, Delete, 101, [16]byte{}, make([]byte, 24)))
	f.Add(rawPacket(MaxVersion, Admin, 1, [16]byte{}, []byte{0, 0, 0, 1, 0, 0, 1, 0, 6, 0, 0, 0}))
	s := goldenServer()
	if err := s.prepare(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if reply := replyTo(t, s, data, "127.0.0.1:99"); len(reply) > maxPacket {
			t.Fatalf("answer of %d bytes", len(reply))
		}
	})
}

// replyTo returns what a server answers to a datagram.
func replyTo(t *testing.T, s *Server, data []byte, client string) []byte {
	in := &door.Packet{Data: data, Client: netip.MustParseAddrPort(client)}
	it := &item{in: in, client: in.Client}
	switch s.read(it, data, time.Now()) {
	case answerNow:
		s.simple(it)
	case answerQuery:
		s.query(t.Context(), &scratch{queries: []*item{it}})
	case answerLater:
		b := &reportBatch{ctx: t.Context(), items: []*item{it}}
		s.count(b, new(asking))
	}
	return in.Reply
}

// TestReflection: an answer to an unproven address is at most 1.5 times as large as the request. The
// answer to NOP, whose size the protocol sets, comes when the client has sent NOP again.
func TestReflection(t *testing.T) {
	s := goldenServer()
	s.AnonymousFrom = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	const stranger = "198.51.100.7:99"
	nop, sent, got := rawPacket(MaxVersion, NOP, AnonymousID, [16]byte{9}, nil), 0, 0
	for range 100 {
		sent += len(nop)
		got += len(replyTo(t, s, nop, "198.51.100.8:99"))
		if door.Amplifies(sent, got) {
			t.Fatalf("%d bytes for NOPs of %d", got, sent)
		}
	}
	if 4*got < 5*sent {
		t.Errorf("%d bytes for NOPs of %d: a client that asks again is not answered", got, sent)
	}
	date := binary.BigEndian.AppendUint32(nil, uint32(time.Now().Unix()))
	for op := range Op(14) {
		for admin := range byte(20) {
			for _, at := range [][]byte{date, {0, 0, 0, 1}} {
				for _, size := range []int{0, 12, 16, 18, 24, 76} {
					body := append(append(bytes.Clone(at), 0, 0, 4, 0, admin, 0, 0, 0), make([]byte, 64)...)[:size]
					msg := rawPacket(MaxVersion, op, AnonymousID, [16]byte{byte(op), admin, byte(size)}, body)
					if reply := replyTo(t, s, msg, stranger); 2*len(reply) > 3*len(msg) && op != NOP {
						t.Errorf("%v %d with %d bytes: %d for %d", op, admin, size, len(reply), len(msg))
					}
				}
			}
		}
	}
	ask := rawPacket(MaxVersion, Admin, AnonymousID, [16]byte{1},
		append(bytes.Clone(date), 0, 0, 4, 0, adminStats, 0, 0, 0))
	if far, near := replyTo(t, s, ask, stranger), replyTo(t, s, ask, "127.0.0.1:99"); len(far) != len(ask)+len(ask)/2 ||
		len(near) < 200 || !bytes.Equal(far[headerSize:len(far)-signatureSize], near[headerSize:len(far)-signatureSize]) {
		t.Errorf("statistics: %q to a stranger, %q to this machine", far, near)
	}
}

// TestGarbage: random packets leave the server serving.
func TestGarbage(t *testing.T) {
	address := serve(t, &Server{Clearinghouse: new(prototest.House)})
	c := dialRaw(t, address)
	random := rand.NewChaCha8([32]byte{7})
	for n := range 400 {
		b := make([]byte, n*3)
		random.Read(b)
		if len(b) > 4 {
			binary.BigEndian.PutUint16(b, uint16(len(b)))
			b[2], b[3] = MaxVersion, byte(n%14)
		}
		c.Write(b)
	}
	if _, err := dial(t, address, AnonymousID, "").Brand(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestExposure(t *testing.T) {
	s := &Server{Clearinghouse: new(prototest.House)}
	for range 2 { // its defaults are no permission
		conn, err := net.ListenUDP("udp", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ServePacket(conn); err == nil || errors.Is(err, door.ErrServerClosed) {
			t.Errorf("an open server on all addresses ends with %v, want a refusal", err)
		}
	}
	for name, s := range map[string]*Server{"brand": {Brand: "a b"}, "server id": {ServerID: 40000}} {
		if err := s.prepare(); err == nil {
			t.Errorf("bad %s: no error", name)
		}
	}
}
