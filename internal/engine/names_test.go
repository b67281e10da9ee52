package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
)

// names returns a reader of what a node knows, and the key under which it sees a domain at its peers.
func (c *county) names(node int, domain string) (*evidence.Reader, filter.Key) {
	c.Helper()
	from := c.nodes[node].checker.Sources()
	maker := from.View.Secrets.Maker()
	r := &evidence.Reader{Keys: maker, Day: 24 * 60 * 60, Now: c.Now}
	r.Begin(from.Sources)
	sig := bulkhead.NamedSignature(bulkhead.Sender, domain)
	return r, maker.Delivered(maker.Base(&sig))
}

// week returns the start of a week, some weeks after the present one.
func (c *county) week(after int) uint64 {
	const week = 7 * 24 * time.Hour
	return uint64(c.Now().Truncate(week).Add(time.Duration(after) * week).Unix())
}

// TestNamesOverNodes compares what nodes see of the names that their peers know with plain maps. A peer shows a
// name in each week in which it delivers the name, once it has delivered it floor times.
func TestNamesOverNodes(t *testing.T) {
	for _, floor := range []uint32{1, 2, 3} {
		c := newCountyOf(t, Options{Block: BookOptions{Floor: floor}}, floor) // votes are shared from floor voters on
		rng := rand.New(rand.NewPCG(uint64(floor), 2))
		counted := make(map[string]uint32) // by node and name
		shown := make(map[string]uint64)   // the first week
		for range 35 {
			for range 6 {
				node, name := rng.IntN(3), fmt.Sprint("name", rng.IntN(60), ".example")
				at := fmt.Sprint(node, name)
				c.deliver(node, name, "")
				if counted[at]++; counted[at] >= floor && shown[at] == 0 {
					shown[at] = c.week(0)
				}
			}
			c.share()
			c.Advance(24 * time.Hour)
		}
		for node := range c.nodes {
			for n := range 60 {
				name := fmt.Sprint("name", n, ".example")
				r, key := c.names(node, name)
				for after := -5; after <= 1; after++ {
					want := false
					for peer := range c.nodes {
						since := shown[fmt.Sprint(peer, name)]
						want = want || peer != node && since > 0 && since < c.week(after)
					}
					if got := r.Vouched(key, 1, c.week(after)); got != want {
						t.Errorf("floor %d, node %d, %s before week %d: %v, want %v", floor, node, name, after, got, want)
					}
				}
				if r.Vouched(key, 1.5, c.week(1)) {
					t.Errorf("floor %d, node %d: peers of too little weight vouch for %s", floor, node, name)
				}
			}
		}
	}
}

// TestNamesOfOneDelivery checks that a name that was delivered once changes nothing that peers get, and that the
// second delivery, weeks later, shows it.
func TestNamesOfOneDelivery(t *testing.T) {
	c := newCounty(t, 2)
	c.share()
	for i := range 2 {
		c.deliver(0, "clinic.example", "clinic.example")
		parts, _, err := c.nodes[0].TakeRounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spam := 0
		for _, p := range parts {
			if p.Array == ArraySpam {
				spam++
			}
		}
		if i == 0 && len(parts) > 0 || i == 1 && spam == 0 {
			t.Errorf("delivery %d: %d parts, %d of them of the list", i, len(parts), spam)
		}
		c.Advance(15 * 24 * time.Hour)
	}
}

// TestNamesLeaveRoom checks that a flood of names takes no more than half of the room of listings, and opens no
// generation. A listing still reaches peers.
func TestNamesLeaveRoom(t *testing.T) {
	c := newCountyOf(t, Options{Names: 100_000}, 1)
	live := len(c.nodes[0].current.Books().Block.Live)
	block := c.nodes[0].current.Books().Block.Live[0]
	all := make([]bulkhead.Signature, 100)
	for i := 0; i < int(block.Capacity); i += len(all) {
		for k := range all {
			all[k] = bulkhead.NamedSignature(bulkhead.Link, fmt.Sprint("flood", i+k, ".example"))
		}
		report(t, c.nodes[0], bulkhead.Report{Signatures: all, Reporter: bulkhead.Reporter{Account: "site"},
			Recipients: []string{"user@here.example"}})
	}
	if n := block.Spam.Keys(); n < block.Capacity/2 || n > block.Capacity/2+uint64(len(all)) {
		t.Errorf("%d keys of names, room for %d", n, block.Capacity)
	}
	if n := len(c.nodes[0].current.Books().Block.Live); n != live {
		t.Errorf("%d generations, had %d", n, live)
	}
	spam := c.mail("evil.example", "evil.example")
	report(t, c.nodes[0], bulkhead.Report{Signatures: spam, Vote: bulkhead.Spam,
		Reporter: bulkhead.Reporter{Account: "site", User: "user"}})
	c.share()
	if v := verdictOf(t, c.nodes[1], spam...); v.Class != bulkhead.ClassSpam {
		t.Errorf("listed: %v", v.Class)
	}
}
