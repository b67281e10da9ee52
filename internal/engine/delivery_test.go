package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
)

// delivered is a stream of mail: campaigns of which some have thousands of copies and
// most have one, half of them with a text of their own for each copy; three senders in
// four are known for long.
type delivered struct{ rng *rand.Rand }

func (d delivered) mail(n int) bulkhead.Report {
	campaign := int(float64(n) * d.rng.Float64() * d.rng.Float64() * d.rng.Float64())
	copies := campaign
	if campaign%2 == 0 {
		copies = n // nothing but a part of the text is shared
	}
	var sigs []bulkhead.Signature
	for _, s := range []bulkhead.Scheme{bulkhead.Exact, bulkhead.PyzorDigest, bulkhead.DCCBody, bulkhead.DCCFuz1,
		bulkhead.DCCFuz2, bulkhead.RazorE4, bulkhead.RazorE8} {
		sigs = append(sigs, sig(s, copies))
	}
	for i := range 20 {
		of := campaign
		if i >= 14 {
			of = copies
		}
		sigs = append(sigs, sig(bulkhead.Near, 100*of+i))
	}
	var sketch []bulkhead.Sample
	for i := range 128 {
		of, kind := campaign, bulkhead.SampleOther
		if i >= 6 {
			of = copies
		}
		if i < 24 {
			kind = bulkhead.SampleOwn
		}
		s := bulkhead.Sample{Value: uint64(1000*of+i) * 0x9e3779b97f4a7c15 >> 16, Kind: kind}
		if i < 8 {
			sigs = append(sigs, s.Signature())
		}
		sketch = append(sketch, s)
	}
	sigs = bulkhead.AppendSketch(sigs, sketch)
	sender := fmt.Sprint("s", d.rng.IntN(2000), ".example")
	if d.rng.IntN(4) == 0 {
		sender = fmt.Sprint("n", campaign, ".example")
	}
	for _, name := range []string{sender, "news@" + sender} {
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Sender, name))
	}
	for i := range 3 {
		host := fmt.Sprint("l", (campaign+i)%5000, ".example")
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, host),
			bulkhead.NamedSignature(bulkhead.Link, fmt.Sprint(host, "/", campaign%3)))
	}
	sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Network, fmt.Sprint("192.0.", d.rng.IntN(256), ".0/24")))
	return bulkhead.Report{Signatures: sigs, Recipients: []string{fmt.Sprint("user", d.rng.IntN(5000))}}
}

// TestBytesOfADelivery: a delivered message takes less than 400 bytes in arrays that are as full as
// they are sized for. This includes the text for a week, names for eight weeks, and votes of one
// recipient in a hundred.
func TestBytesOfADelivery(t *testing.T) {
	if testing.Short() {
		t.Skip("20,000 deliveries")
	}
	const deliveries = 20_000
	c := newClock()
	big := BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 1_000_000, Error: 1e-3}
	lists := BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 1_000_000, Error: 1e-5}
	e := open(t, Options{Now: c.Now, Tally: big, Block: lists})
	d := delivered{rand.New(rand.NewPCG(1, 2))}
	votes := 0
	for n := range deliveries {
		r := d.mail(n)
		report(t, e, r)
		if n%100 == 0 {
			r.Vote, r.Recipients = bulkhead.Spam, nil
			r.Reporter.User = fmt.Sprint("user", n)
			report(t, e, r)
			votes++
		}
	}
	v := e.current.View()
	tally, block := v.Tally.Live[0], v.Block.Live[0]
	total := 0.0
	say := func(name string, s arrays.Stats, bytes, capacity uint64) {
		each := float64(s.Keys) / deliveries
		size := each*float64(bytes)/float64(capacity) + float64(s.Bytes-bytes)/deliveries
		t.Logf("%-8s %6.2f keys a delivery, %6.1f bytes, %5.1f of them beside the cells", name, each, size,
			float64(s.Bytes-bytes)/deliveries)
		total += size
	}
	say("counts", tally.Counts.Stats(), tally.CountsGeometry.Bytes(), tally.Capacity)
	say("unique", tally.Unique.Stats(), tally.UniqueGeometry.Bytes(), tally.UniqueCapacity)
	say("names", block.Names.Stats(), block.NamesGeometry.Bytes(), block.NameCapacity)
	say("weights", block.Weights.Stats(), block.WeightsGeometry.Bytes(), block.VoteCapacity)
	say("votes", block.Votes.Stats(), block.VotesGeometry.Bytes(), block.VoteCapacity)
	say("spam", block.Spam.Stats(), block.SpamGeometry.Bytes(), block.Capacity)
	t.Logf("%.0f bytes a delivery, of which %d in %d are reported; a generation has a fourth to three "+
		"fourths of room left", total, votes, deliveries)
	if total > 400 || total < 10 {
		t.Errorf("%.0f bytes a delivery, want less than 400", total)
	}
}
