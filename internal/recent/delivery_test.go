package recent

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// A shelf is an Archive of deliveries in a list.
type shelf struct{ past []Delivery }

var shelfSeed = maphash.MakeSeed()

func (shelf) MessageID(text string) (id [16]byte) {
	copy(id[:], text)
	return id
}

func (shelf) Mailbox(address string) Mailbox {
	if address == "" {
		return Mailbox{}
	}
	address = bulkhead.Mailbox(address)
	local, _, _ := strings.Cut(address, "@")
	return Mailbox{maphash.String(shelfSeed, address), maphash.String(shelfSeed, local)}
}

func (s shelf) Find(context.Context, bulkhead.Signature, [16]byte) []Delivery { return s.past }

// mail returns the signatures of a text with its sources.
func mail(text string, sources ...bulkhead.Signature) []bulkhead.Signature {
	sigs := []bulkhead.Signature{sig(bulkhead.Exact, text)}
	for i := range 20 {
		sigs = append(sigs, sig(bulkhead.Near, fmt.Sprint(text[:len(text)-1], i)))
	}
	return append(sigs, sources...)
}

func from(name string) bulkhead.Signature     { return bulkhead.NamedSignature(bulkhead.Sender, name) }
func network4(name string) bulkhead.Signature { return bulkhead.NamedSignature(bulkhead.Network, name) }

// TestFind checks which delivery a vote is joined with.
func TestFind(t *testing.T) {
	ann, bob, cay := shelf{}.Mailbox("ann@example.org"), shelf{}.Mailbox("bob@example.org"), shelf{}.Mailbox("cay")
	one, two, three := shelf{}.MessageID("1"), shelf{}.MessageID("2"), shelf{}.MessageID("3")
	netA, netB := network4("192.0.2.0/24"), network4("198.51.100.0/24")
	link := bulkhead.NamedSignature(bulkhead.Link, "shop.example")
	deliveries := []Delivery{
		{Signatures: mail("campaign text 1", netA, link), MessageID: one, Recipients: []Mailbox{ann}},
		{Signatures: mail("campaign text 1", netB, link), MessageID: two, Recipients: []Mailbox{bob}},
		{Signatures: mail("another text 1", from("a.example")), MessageID: three, Recipients: []Mailbox{bob}},
		{Signatures: mail("a decoy text 1", from("decoy.example")), MessageID: one, Recipients: []Mailbox{bob}},
		{Signatures: mail("local text 1", netA), MessageID: three, Recipients: []Mailbox{shelf{}.Mailbox("cay@example.org")}},
	}
	for _, tt := range []struct {
		name string
		vote Wanted
		want []bulkhead.Signature
		how  bulkhead.Join
	}{
		{"by ID and voter", Wanted{Signatures: mail("campaign text 1"), MessageID: two, Voter: bob, Own: true},
			[]bulkhead.Signature{netB, link}, bulkhead.JoinedByID},
		{"by text and voter", Wanted{Signatures: mail("campaign text 1"), Voter: ann, Own: true},
			[]bulkhead.Signature{netA, link}, bulkhead.JoinedByText},
		{"of a stranger", Wanted{Signatures: mail("campaign text 1"), Voter: ann},
			[]bulkhead.Signature{netA, link}, bulkhead.JoinedByText},
		{"by ID, not the voter's", Wanted{Signatures: mail("campaign text 1"), MessageID: one, Voter: cay, Own: true},
			[]bulkhead.Signature{netA, link}, bulkhead.JoinedByID},
		{"several networks", Wanted{Signatures: mail("campaign text 1"), Own: true},
			[]bulkhead.Signature{link}, bulkhead.JoinedByText},
		{"nearly the same", Wanted{Signatures: mail("campaign text 2"), Voter: ann, Own: true},
			[]bulkhead.Signature{netA, link}, bulkhead.JoinedByNear},
		{"nearly the same, of a stranger", Wanted{Signatures: mail("campaign text 2"), Voter: ann}, nil, bulkhead.NotJoined},
		{"a decoy with the same ID to the same voter",
			Wanted{Signatures: mail("campaign text 1"), MessageID: one, Voter: bob, Own: true},
			[]bulkhead.Signature{netB, link}, bulkhead.JoinedByText},
		{"a changed text", Wanted{Signatures: mail("quite unlike 1"), MessageID: three, Voter: bob, Own: true},
			[]bulkhead.Signature{from("a.example")}, bulkhead.JoinedByID},
		{"a changed text of another's mail",
			Wanted{Signatures: mail("quite unlike 1"), MessageID: three, Voter: ann, Own: true},
			nil, bulkhead.NotJoined},
		{"a user without a domain", Wanted{Signatures: mail("quite unlike 1"), MessageID: three, Voter: cay, Own: true},
			[]bulkhead.Signature{netA}, bulkhead.JoinedByID},
		{"unseen", Wanted{Signatures: mail("quite unlike 1"), Voter: ann, Own: true}, nil, bulkhead.NotJoined},
	} {
		d := NewDeliveries(1<<20, time.Hour, nil)
		for i := range deliveries {
			d.Note(&deliveries[i])
		}
		got, how := d.Find(&tt.vote)
		if how != tt.how || !slices.Equal(got.Signatures, tt.want) {
			t.Errorf("%s: %v by %v, want %v by %v", tt.name, got.Signatures, how, tt.want, tt.how)
		}
	}
}

// TestFindOracle compares joins of random votes with a list of all deliveries, through expiry and
// eviction.
func TestFindOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	now := time.Unix(1e9, 0)
	d := NewDeliveries(40_000, time.Hour, func() time.Time { return now })
	var all []Delivery
	for range 3_000 {
		now = now.Add(time.Duration(rng.IntN(120)) * time.Second)
		box := func() Mailbox { return shelf{}.Mailbox(fmt.Sprintf("user%d@example.org", rng.IntN(6))) }
		text := fmt.Sprintf("text %d x", rng.IntN(30))
		one := Delivery{Signatures: mail(text, network4(fmt.Sprintf("192.0.%d.0/24", rng.IntN(9)))), Seen: now,
			MessageID: shelf{}.MessageID(fmt.Sprint(rng.IntN(50))), Recipients: []Mailbox{box()}}
		d.Note(&one)
		all = append(all, one)
		n, bytes := d.Size()
		if bytes > 40_000 || n > len(all) {
			t.Fatalf("%d deliveries take %d bytes", n, bytes)
		}
		all = all[len(all)-n:] // the oldest are forgotten first
		w := Wanted{Signatures: mail(fmt.Sprintf("text %d x", rng.IntN(30))), Own: true,
			MessageID: shelf{}.MessageID(fmt.Sprint(rng.IntN(50))), Voter: box()}
		got, how := d.Find(&w)
		want := bestOf(all, &w, now.Add(-time.Hour))
		if how == bulkhead.NotJoined != (want == nil) {
			t.Fatalf("joined by %v, but %d deliveries fit", how, len(want))
		}
		for _, s := range got.Signatures {
			if !slices.ContainsFunc(want, func(d Delivery) bool { return slices.Contains(d.Signatures, s) }) {
				t.Fatalf("%v is of no delivery that fits best", s)
			}
		}
	}
	now = now.Add(2 * time.Hour)
	if _, how := d.Find(&Wanted{Signatures: all[len(all)-1].Signatures, Own: true}); how != bulkhead.NotJoined {
		t.Errorf("a vote is joined by %v with a delivery that is too old", how)
	}
}

// bestOf returns the deliveries that fit a vote best.
func bestOf(all []Delivery, w *Wanted, oldest time.Time) (best []Delivery) {
	rank := 0
	for _, one := range all {
		if !one.Seen.After(oldest) {
			continue
		}
		text, id, to := one.Signatures[0] == w.Signatures[0], one.MessageID == w.MessageID, one.Recipients[0] == w.Voter
		r := 0
		switch {
		case text && id && to:
			r = 5
		case text && to:
			r = 4
		case text && id:
			r = 3
		case text:
			r = 2
		case id && to:
			r = 1
		}
		if r > rank {
			best, rank = nil, r
		}
		if r == rank && r > 0 {
			best = append(best, one)
		}
	}
	return best
}

// TestVoteHasTheSourceOfItsDelivery checks that a vote on a message counts for the network that
// delivered it, whatever the voter says, from memory and from the archive.
func TestVoteHasTheSourceOfItsDelivery(t *testing.T) {
	network := network4("192.0.2.0/24")
	source := bulkhead.Source{MessageID: "1"}
	for _, tt := range []struct {
		name  string
		seen  bool
		past  []Delivery
		claim []bulkhead.Signature
		want  bulkhead.Join
	}{
		{"in memory", true, nil, nil, bulkhead.JoinedByID},
		{"against the voter's claim", true, nil, []bulkhead.Signature{from("bank.example")}, bulkhead.JoinedByID},
		{"in the archive", false, []Delivery{{Signatures: mail("a text 1", network), MessageID: shelf{}.MessageID("1"),
			Recipients: []Mailbox{shelf{}.Mailbox("ann@example.org")}, Seen: time.Now()}}, nil, bulkhead.JoinedByID},
		{"not seen", false, nil, []bulkhead.Signature{from("bank.example")}, bulkhead.NotJoined},
	} {
		behind := &prototest.House{}
		h := New(bulkhead.CounterOf(behind), NewTable(1<<20, time.Hour, nil), shows)
		h.Join(NewDeliveries(1<<20, time.Hour, nil), shelf{tt.past})
		if tt.seen {
			if _, err := h.Report(t.Context(), bulkhead.Report{Signatures: mail("a text 1", network), Source: source,
				Recipients: []string{"ann@example.org"}, Reporter: own}); err != nil {
				t.Fatal(err)
			}
		}
		who := own
		who.User = "ann@example.org"
		receipt, err := h.Report(t.Context(), bulkhead.Report{Signatures: mail("a text 1", tt.claim...), Vote: bulkhead.Spam,
			Source: source, Reporter: who})
		if err != nil {
			t.Fatal(err)
		}
		reports := behind.Reports()
		got := reports[len(reports)-1].Signatures
		if joined := tt.want != bulkhead.NotJoined; slices.Contains(got, network) != joined ||
			slices.Contains(got, from("bank.example")) != (!joined && len(tt.claim) > 0) || receipt.Delivery != tt.want {
			t.Errorf("%s: joined by %v, want %v; the vote is on %v", tt.name, receipt.Delivery, tt.want, got[21:])
		}
	}
}

// TestStrangersDeliver checks that deliveries of strangers are not remembered: else a stranger could
// choose the network or sender that the votes of others count for.
func TestStrangersDeliver(t *testing.T) {
	behind := &prototest.House{}
	h := New(bulkhead.CounterOf(behind), NewTable(1<<20, time.Hour, nil), shows)
	h.Join(NewDeliveries(1<<20, time.Hour, nil), shelf{})
	for _, who := range []bulkhead.Reporter{stranger, closed} {
		if _, err := h.Report(t.Context(), bulkhead.Report{
			Signatures: mail("a text 1", from("bank.example")), Reporter: who,
		}); err != nil {
			t.Fatal(err)
		}
	}
	receipt, err := h.Report(t.Context(),
		bulkhead.Report{Signatures: mail("a text 1"), Vote: bulkhead.Spam, Reporter: own})
	if err != nil || receipt.Delivery != bulkhead.NotJoined {
		t.Errorf("joined by %v, error %v", receipt.Delivery, err)
	}
}
