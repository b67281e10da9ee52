package fuzzy

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/signature"
)

const orchard = "in the last week of october the neighbours come with ladders and long poles to bring in " +
	"what the wind has left on the old trees " +
	"behind the mill and the small ones gather from the wet grass whatever is not yet eaten by wasps until six " +
	"baskets stand full in the barn " +
	"where an aunt turns the handle of the press and everybody may hold a cup below the spout before the rest " +
	"goes into bottles for the winter\n"

func message(text string) []byte {
	return []byte("From: Ida <ida@garden.example>\nTo: reader@farm.example\nSubject: orchard\nMIME-Version: 1.0\n" +
		"Content-Type: text/plain; charset=utf-8\n\n" + text)
}

// local is a trusted reporter.
var local = bulkhead.Reporter{Addr: netip.MustParseAddr("127.0.0.1")}

func openEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Tally: engine.DefaultTally()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.WithoutCancel(t.Context())) })
	return e
}

// TestReportedElsewhere: a whole mail that another front door reported is known
// to fuzzy_check, and what fuzzy_check learns is known to the others.
func TestReportedElsewhere(t *testing.T) {
	e := openEngine(t)
	s := &Server{Clearinghouse: e}
	s.prepare()
	hashOf := func(text string) *rspamd.Hash {
		t.Helper()
		hashes, err := rspamd.NewHasher("", "", rspamd.MumHash).Hashes(t.Context(), message(text), rspamd.Policy{})
		must(t, err)
		if len(hashes) != 1 || hashes[0].Shingles == nil {
			t.Fatalf("%d hashes", len(hashes))
		}
		return &hashes[0]
	}
	sigsOf := func(text string) []bulkhead.Signature {
		t.Helper()
		sigs, err := signature.Compute(t.Context(), message(text), signature.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return sigs
	}
	want := func(when, text string, known bool, near bool) {
		t.Helper()
		r := s.checkOne(t.Context(), hashOf(text))
		if r.OK() != known || known && (r.Flag != 1 || r.Value < 1 || near != (r.Prob < 1)) {
			t.Errorf("%s: %+v, want it known: %v, near: %v", when, r, known, near)
		}
	}
	copyOf := strings.Replace(strings.Replace(orchard, "aunt", "uncle", 1), "wasps", "hornets", 1)
	other := strings.Map(func(r rune) rune {
		if r >= 'a' && r < 'z' {
			return r + 1
		}
		return r
	}, orchard)
	want("before the report", orchard, false, false)
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigsOf(orchard),
		Vote: bulkhead.Spam, Reporter: local}); err != nil {
		t.Fatal(err)
	}
	want("the mail itself", orchard, true, false)
	want("a near copy", copyOf, true, true)
	want("another mail", other, false, false)
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigsOf(orchard), Vote: bulkhead.Revocation,
		Reporter: local}); err != nil {
		t.Fatal(err)
	}
	want("after its revocation", orchard, false, false)
	want("a near copy, after its revocation", copyOf, false, false)

	// A sighting is not a judgement.
	if _, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigsOf(other), Vote: bulkhead.Sighting,
		Count: 50, Reporter: local}); err != nil {
		t.Fatal(err)
	}
	want("a mail that was only seen", other, false, false)

	// The other direction: what fuzzy_check learns, read whole.
	h := hashOf(other)
	j := &job{client: netip.MustParseAddrPort("127.0.0.1:1"), req: Request{
		Version: 4, Command: Write, Flag: 1, Value: 10, Digest: h.Digest, Shingled: true, Shingles: *h.Shingles,
	}}
	j.recent, _ = s.seen.updates.enter(j.recentID(), s.Now())
	s.updateAll(t.Context(), []*job{j})
	if j.err != nil {
		t.Fatal(j.err)
	}
	v, err := e.Check(t.Context(), bulkhead.Query{Signatures: sigsOf(other)})
	if err != nil {
		t.Fatal(err)
	}
	// Read whole, it might be another mail of the same digest.
	if v.Class != bulkhead.ClassSuspected || !strings.Contains(fmt.Sprint(v.Reasons), "rspamd/text") {
		t.Errorf("learnt by fuzzy_check: class %v, want suspected; reasons %q", v.Class, v.Reasons)
	}
}
