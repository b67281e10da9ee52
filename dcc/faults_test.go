package dcc

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// aside are the signatures that are looked up in the background.
func aside(sig bulkhead.Signature) bool { return sig == deletesSignature() }

// TestEveryFaultIsTold: if any call to the clearinghouse fails, the client gets an error, and no
// unfounded totals.
func TestEveryFaultIsTold(t *testing.T) {
	house := &prototest.Ailing{Tally: prototest.NewTally(4), Aside: aside}
	s := goldenServer()
	s.Clearinghouse = house
	address := serve(t, s)
	c, admin := dial(t, address, goldenClient, goldenPasword), dial(t, address, 101, "serverpass")
	ctx, sums := t.Context(), goldenChecksums(t)[1:3]
	report := func(spam bool) func() error {
		return func() error { _, err := c.Report(ctx, 1, spam, sums); return err }
	}
	query := func() error { _, err := c.Query(ctx, sums); return err }
	for _, round := range []string{"", " when something was deleted"} {
		house.Test(t, "report"+round, report(false))
		house.Test(t, "query"+round, query)
		house.Test(t, "report of spam"+round, report(true))
		house.Test(t, "second query"+round, query)
		for i := range sums {
			house.Test(t, "DELETE"+round, func() error { return admin.Delete(ctx, sums[i]) })
		}
		got, err := c.Query(ctx, sums)
		wantTotals(t, "after all", got, err, Total{0, 0}, Total{0, 0})
	}
	if s.Stats.Faults.Load() == 0 {
		t.Error("faults are not counted")
	}
}

// TestIfdEveryFaultIsTold: mail passes if only counting fails, and has to wait if nothing can be
// looked up or a report of spam fails.
func TestIfdEveryFaultIsTold(t *testing.T) {
	for _, tt := range []struct{ options, want string }{{"header query", "T\nT\n"}, {"header spam", "T\nT\n"}} {
		house := &prototest.Ailing{Tally: prototest.NewTally(4), Aside: aside}
		house.Add(deletesSignature(), 1)
		ask := serveIfd(t, &Ifd{Clearinghouse: house, Brand: "b"})
		ask(ifdRequestText("header", "bob")) // a checksum is known
		house.Test(t, tt.options, func() error {
			if got := ask(ifdRequestText(tt.options, "bob")); got == tt.want {
				return errors.New("told to come again")
			}
			return nil
		})
	}
	house := &prototest.Ailing{Tally: prototest.NewTally(4), Aside: aside}
	ask := serveIfd(t, &Ifd{Clearinghouse: uncounted{house}, Brand: "b"})
	if got := ask(ifdRequestText("header", "bob")); !strings.HasPrefix(got, "A\nA\n") {
		t.Errorf("reply %q where counting failed", got)
	}
}

// uncounted is a clearinghouse that counts nothing.
type uncounted struct{ bulkhead.Counter }

func (uncounted) Count(context.Context, []bulkhead.Signature, []uint32) error {
	return prototest.ErrFault
}

// TestTogether: known, deleted and unknown checksums each have their own totals, in any
// combination.
func TestTogether(t *testing.T) {
	s := goldenServer()
	s.Clearinghouse = prototest.NewTally(4)
	address := serve(t, s)
	c, admin := dial(t, address, goldenClient, goldenPasword), dial(t, address, 101, "serverpass")
	ctx := t.Context()
	sum := func(typ digests.Type, n byte) Checksum { return Checksum{typ, [16]byte{n, 1}} }
	body, fuz1, fuz2 := sum(digests.TypeBody, 1), sum(digests.TypeFuz1, 2), sum(digests.TypeFuz2, 3)
	must := func(_ []Total, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Report(ctx, 3, false, []Checksum{body, fuz1}))
	must(c.Report(ctx, 4, true, []Checksum{fuz2}))
	if err := admin.Delete(ctx, body); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(ctx, fuz2); err != nil {
		t.Fatal(err)
	}
	must(c.Report(ctx, 2, false, []Checksum{body}))
	must(c.Report(ctx, 1, true, []Checksum{fuz2}))
	got, err := c.Query(ctx, []Checksum{body, fuz1, fuz2})
	wantTotals(t, "all", got, err, Total{2, 2}, Total{3, 3}, Total{Many, Many})
	got, err = c.Report(ctx, 1, false, []Checksum{body, fuz1, fuz2})
	wantTotals(t, "reported together", got, err, Total{3, 2}, Total{4, 3}, Total{Many, Many})
	if err := admin.Delete(ctx, fuz2); err != nil {
		t.Fatal(err)
	}
	got, err = c.Query(ctx, []Checksum{body, fuz1, fuz2})
	wantTotals(t, "deleted again", got, err, Total{3, 3}, Total{4, 4}, Total{0, 0})
}

// TestTogetherAged: the same when the deleted counts are forgotten before their deletion.
func TestTogetherAged(t *testing.T) {
	house := prototest.NewTally(2)
	s := goldenServer()
	s.Clearinghouse = house
	address := serve(t, s)
	c, admin := dial(t, address, goldenClient, goldenPasword), dial(t, address, 101, "serverpass")
	ctx := t.Context()
	body, fuz1, fuz2 := Checksum{digests.TypeBody, [16]byte{1}}, Checksum{digests.TypeFuz1,
		[16]byte{2}}, Checksum{digests.TypeFuz2, [16]byte{3}}
	must := func(_ []Total, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Report(ctx, 3, false, []Checksum{body, fuz1}))
	must(c.Report(ctx, 4, true, []Checksum{fuz2}))
	house.Age()
	for _, sum := range []Checksum{body, fuz2} {
		if err := admin.Delete(ctx, sum); err != nil {
			t.Fatal(err)
		}
	}
	must(c.Report(ctx, 2, false, []Checksum{body, fuz1}))
	must(c.Report(ctx, 1, true, []Checksum{fuz2}))
	house.Age()
	got, err := c.Query(ctx, []Checksum{body, fuz1, fuz2})
	wantTotals(t, "all", got, err, Total{2, 2}, Total{2, 2}, Total{Many, Many})
}

// TestBatch: reports that arrive together are counted separately, each claim of spam for its own
// checksums.
func TestBatch(t *testing.T) {
	s := goldenServer()
	s.Clearinghouse = prototest.NewTally(2)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	b := &reportBatch{ctx: t.Context()}
	for i, r := range []struct {
		targets uint32
		sums    []Checksum
	}{
		{3, []Checksum{{digests.TypeBody, [16]byte{1}}, {digests.TypeFuz1, [16]byte{2}}}},
		{targetsSpam | 4, []Checksum{{digests.TypeIP, [16]byte{9}}, {digests.TypeBody, [16]byte{3}}}},
		{targetsSpam | 5, []Checksum{{digests.TypeFuz2, [16]byte{4}}}},
		{6, []Checksum{{digests.TypeBody, [16]byte{1}}}},
	} {
		it := &item{in: &door.Packet{}, client: netip.MustParseAddrPort("127.0.0.1:99")}
		if got := s.read(it, rawPacket(MaxVersion, Report, AnonymousID, [16]byte{byte(i)},
			appendChecksums(nil, r.targets, r.sums)), s.Now()); got != answerLater {
			t.Fatalf("report %d: %v", i, got)
		}
		b.items = append(b.items, it)
	}
	if _, err := s.count(b, new(asking)); err != nil || errors.Join(b.errs...) != nil {
		t.Fatal(err, b.errs)
	}
	sums := []Checksum{{digests.TypeBody, [16]byte{1}}, {digests.TypeFuz1, [16]byte{2}}, {digests.TypeBody, [16]byte{3}},
		{digests.TypeFuz2, [16]byte{4}}}
	got, err := s.setup.book.tallies(t.Context(), new(asking), sums)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{9, 3, Many, Many} {
		if total := got[i].total(); total != want {
			t.Errorf("checksum %d: total %d, want %d", i, total, want)
		}
	}
}

// TestStats: each request is counted by its kind.
func TestStats(t *testing.T) {
	type stats struct {
		nops, queries, reports, repeated, spam, deletes, admin, anonymous, badPassword, malformed, limited, faults int64
	}
	readOnly := bulkhead.ErrReadOnly
	body := appendChecksums(nil, 1, goldenChecksums(t)[1:2])
	spamBody, rep := appendChecksums(nil, targetsSpam|3, goldenChecksums(t)[1:2]), appendChecksums(nil,
		targetsRep|3, goldenChecksums(t)[1:2])
	for _, tt := range []struct {
		name     string
		err      error // of the node
		op       Op
		sender   uint32
		password string
		body     []byte
		want     stats
	}{
		{"NOP", nil, NOP, goldenClient, goldenPasword, nil, stats{nops: 1}},
		{"anonymous NOP", nil, NOP, AnonymousID, "", nil, stats{nops: 1, anonymous: 1}},
		{"wrong password", nil, NOP, goldenClient, "wrong", nil, stats{nops: 1, anonymous: 1, badPassword: 1}},
		{"unknown client", nil, NOP, goldenClient + 1, goldenPasword, nil, stats{nops: 1, anonymous: 1, badPassword: 1}},
		{"query", nil, Query, goldenClient, goldenPasword, body, stats{queries: 1}},
		{"report", nil, Report, goldenClient, goldenPasword, body, stats{reports: 1}},
		{"report of nothing", nil, Report, goldenClient, goldenPasword, appendChecksums(nil, 0, goldenChecksums(t)),
			stats{queries: 1}},
		{"report of spam", nil, Report, goldenClient, goldenPasword, spamBody, stats{reports: 1, spam: 1}},
		{"by reputation", nil, Report, goldenClient, goldenPasword, rep, stats{reports: 1, spam: 1}},
		{"DELETE", nil, Delete, 101, "serverpass", nil, stats{deletes: 1}},
		{"statistics", nil, Admin, goldenClient, goldenPasword, []byte{0, 0, 0, 0, 0, 0, 0, 1, adminStats, 0, 0, 0},
			stats{admin: 1}},
		{"broken", nil, NOP, goldenClient, goldenPasword, []byte{1}, stats{malformed: 1}},
		{"report to a node that takes none", readOnly, Report, goldenClient, goldenPasword, body, stats{faults: 1}},
		{"query of a node with a fault", prototest.ErrFault, Query, goldenClient, goldenPasword,
			body, stats{queries: 1, faults: 1}},
	} {
		s := goldenServer()
		s.Clearinghouse = &prototest.House{Err: tt.err}
		c := dialRaw(t, serve(t, s))
		if tt.op == Delete {
			tt.body = append(appendChecksums(nil, uint32(clockOf(s)), goldenChecksums(t)[1:2]), 0, 0)
		}
		p := signed(tt.op, tt.sender, tt.password, 1, tt.body)
		var answer Op
		if tt.want.malformed > 0 {
			silent(t, c, p)
			tt.want.nops, tt.want.anonymous = 1, 1 // of the request after it
		} else {
			answer = Op(exchange(t, c, p)[3])
		}
		if tt.want.reports+tt.want.deletes > 0 {
			// A retransmission is answered and not counted.
			tt.want.repeated = 1
			if got := exchange(t, c, p); Op(got[3]) != answer || answer == Error {
				t.Errorf("%s: sent again: %x, want a second %s", tt.name, got, answer)
			}
		}
		st := &s.Stats
		got := stats{
			st.NOPs.Load(), st.Queries.Load(), st.Reports.Load(), st.Repeated.Load(), st.Spam.Load(),
			st.Deletes.Load(), st.Admin.Load(),
			st.Anonymous.Load(), st.BadPassword.Load(), st.Malformed.Load(), st.Limited.Load(), st.Faults.Load(),
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func clockOf(s *Server) int64 { s.prepare(); return s.Now().Unix() }

// TestReadOnlyIsSaid: a client can distinguish a node that takes no reports from a broken node.
func TestReadOnlyIsSaid(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{{bulkhead.ErrReadOnly, "temporarily read-only"}, {prototest.ErrFault, "internal error"}} {
		c := dial(t, serve(t, &Server{Clearinghouse: &prototest.House{Err: tt.err}}), AnonymousID, "")
		if _, err := c.Report(t.Context(), 1, false, goldenChecksums(t)); err == nil ||
			!strings.Contains(err.Error(), `"`+tt.want+`"`) {
			t.Errorf("%v: %v, want %q", tt.err, err, tt.want)
		}
	}
}

// TestVotes: a claim of spam is a vote by its sender, unless it rests only on the reputation of the
// mail's sender. A DELETE revokes.
func TestVotes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		targets uint32
		sums    []Checksum
		want    int
	}{
		{"many", Many, goldenChecksums(t), 1},
		{"spam", targetsSpam | 7, goldenChecksums(t), 1},
		{"spam of no targets", targetsSpam, goldenChecksums(t), 1},
		{"spam and reputation", targetsSpam | targetsRep | 1, goldenChecksums(t), 1},
		{"reputation", targetsRep | 1, goldenChecksums(t), 0},
		{"no claim", 7, goldenChecksums(t), 0},
		{"nothing that is kept", targetsSpam | 1, goldenChecksums(t)[:1], 0},
	} {
		house := new(prototest.House)
		s := goldenServer()
		s.Clearinghouse = house
		s.Account = func(uint32) (Account, bool) {
			return Account{Passwords: []string{goldenPasword}, Name: "ann"}, true
		}
		c := dialRaw(t, serve(t, s))
		got := exchange(t, c, signed(Report, goldenClient, goldenPasword, 1, appendChecksums(nil, tt.targets, tt.sums)))
		if Op(got[3]) != Answer {
			t.Fatalf("%s: %x", tt.name, got)
		}
		if len(tt.sums) > 1 && tt.targets > maxTargets {
			if total := binary.BigEndian.Uint32(got[headerSize+8:]); total != Many {
				t.Errorf("%s: total %#x, want many", tt.name, total)
			}
		}
		votes := 0
		for _, r := range house.Reports() {
			if r.Vote != bulkhead.Spam {
				continue
			}
			votes++
			want := bulkhead.Reporter{Account: "ann", Addr: netip.MustParseAddr("127.0.0.1")}
			if r.Reporter != want || len(r.Signatures) != 3 || r.Signatures[0] != signatureOf(&tt.sums[1]) {
				t.Errorf("%s: vote of %+v on %d signatures, want %+v on 3", tt.name, r.Reporter, len(r.Signatures), want)
			}
		}
		if votes != tt.want {
			t.Errorf("%s: %d votes, want %d", tt.name, votes, tt.want)
		}
	}
}
