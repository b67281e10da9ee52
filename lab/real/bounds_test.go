package real

import (
	"bytes"
	"net/mail"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

// TestBounds checks that the plan of each bound has the mail that its limits are about, repeats, and
// has mail that can be parsed.
func TestBounds(t *testing.T) {
	for _, b := range Bounds() {
		plan, again := b.Plan(3), b.Plan(3)
		if len(plan.Deliveries) != len(again.Deliveries) {
			t.Fatalf("%s: %d and %d deliveries of one seed", b.Name, len(plan.Deliveries), len(again.Deliveries))
		}
		tally := NewTally()
		for i := range plan.Deliveries {
			d := &plan.Deliveries[i]
			tally.delivered(plan, d, Answer{})
			if i%50 != 0 {
				continue
			}
			m := d.Mail()
			other := again.Deliveries[i].Mail()
			if !bytes.Equal(m.Raw, other.Raw) {
				t.Fatalf("%s: delivery %d differs", b.Name, i)
			}
			if _, err := mail.ReadMessage(bytes.NewReader(m.Raw)); err != nil {
				t.Errorf("%s, %s: %v", b.Name, d.Kind, err)
			}
		}
		for _, r := range b.Results(tally) {
			if r.Cases < 100 {
				t.Errorf("%s: %d deliveries of %s, too few", b.Name, r.Cases, r.Group.Name)
			}
			if r.Percent != 0 || r.Kept == r.atLeast() {
				t.Errorf("%s: %v: %v %% where no mail was flagged, kept %v", b.Name, r.Limit, r.Percent, r.Kept)
			}
		}
	}
}

// TestLimits checks which shares keep a limit.
func TestLimits(t *testing.T) {
	plan := &Plan{Name: "a plan"}
	for _, tt := range []struct {
		limit Limit
		class bulkhead.Class
		kept  bool
	}{
		{Limit{true, Group{"kind", "x"}, CalledSpam, 50}, bulkhead.ClassSpam, true},
		{Limit{true, Group{"kind", "x"}, CalledSpam, 50}, bulkhead.ClassSuspected, false},
		{Limit{true, Group{"kind", "x"}, CalledGood, 0.5}, bulkhead.ClassGood, false},
		{Limit{false, Group{"kind", "x"}, CalledSpam, 0}, bulkhead.ClassSpam, false},
		{Limit{false, Group{"kind", "x"}, CalledSpam, 0}, bulkhead.ClassSuspected, true},
		{Limit{false, Group{"kind", "x"}, Suspected, 5}, bulkhead.ClassSuspected, false},
		{Limit{false, Group{"kind", "x"}, Suspected, 5}, bulkhead.ClassSpam, true},
		{Limit{false, Group{"kind", "x"}, Flagged, 5}, bulkhead.ClassSpam, false},
		{Limit{false, Group{"kind", "x"}, Flagged, 5}, bulkhead.ClassBulk, true},
		{Limit{false, Group{"kind", "y"}, CalledSpam, 0}, bulkhead.ClassBulk, false}, // no cases
	} {
		tally := NewTally()
		plan.Sites = []Site{{Door: Rspamd}}
		tally.delivered(plan, &Delivery{Spam: tt.limit.IsSpam, Kind: "x"}, Answer{Class: tt.class})
		b := Bound{Limits: []Limit{tt.limit}}
		if got := b.Results(tally); got[0].Kept != tt.kept {
			t.Errorf("%v %s of %v: kept %v, want %v", tt.limit, tt.limit.Measure, tt.class, got[0].Kept, tt.kept)
		}
	}
}

// TestAfterReport counts the copies that come after a report of their campaign.
func TestAfterReport(t *testing.T) {
	plan := Plan{Deliveries: []Delivery{
		{At: 1, Spam: true, Campaign: 1, Reports: true, Delay: 2}, {At: 2, Spam: true, Campaign: 1},
		{At: 4, Spam: true, Campaign: 1}, {At: 5, Spam: true, Campaign: 2}, {At: 6, Campaign: 3, Reports: true},
		{At: 9, Campaign: 3},
	}}
	if got := plan.AfterReport(); got != 0.25 {
		t.Errorf("%v of the spam, want one of four", got)
	}
}
